//! Connections with timeouts, and a limit on how many are open.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Maximum time from the first byte of a request, or from accepting the connection, to the first
/// byte of the response. Sending the request slowly does not extend it.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time between the last byte written and the next request, or the next byte the client
/// accepts.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// Tracks the open connections, oldest first.
///
/// Above the limit the oldest is closed, so that a client that holds connections open cannot lock
/// out the kubelet.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTracker {
    limit: usize,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// In the order in which they were accepted. A connection ends when its sender is dropped.
    by_age: BTreeMap<u64, oneshot::Sender<()>>,
    /// Keys are never reused: an evicted connection may live on for a moment.
    next_key: u64,
}

impl ConnectionTracker {
    pub(crate) fn new(limit: usize) -> Self {
        let open = Arc::default();
        Self { limit, open }
    }

    /// Starts to track a connection. Evicts the oldest if the limit is reached.
    pub(crate) fn admit<S>(&self, stream: S) -> ClientConnection<S> {
        let (evict, evicted) = oneshot::channel();
        let mut open = self.open.lock();
        while open.by_age.len() >= self.limit {
            open.by_age.pop_first();
        }
        let key = open.next_key;
        open.next_key += 1;
        open.by_age.insert(key, evict);
        ClientConnection {
            stream,
            key,
            connections: self.clone(),
            evicted,
            answered: false,
            timeout: Box::pin(sleep(REQUEST_TIMEOUT)),
        }
    }

    /// Evicts all connections, which ends their requests.
    pub(crate) fn close_all(&self) {
        self.open.lock().by_age.clear();
    }
}

/// A stream that fails with `TimedOut` when its client is too slow or it is evicted.
#[derive(Debug)]
pub(crate) struct ClientConnection<S> {
    stream: S,
    key: u64,
    connections: ConnectionTracker,
    evicted: oneshot::Receiver<()>,
    /// The server wrote last: no request is in progress.
    answered: bool,
    timeout: Pin<Box<Sleep>>,
}

impl<S> ClientConnection<S> {
    /// Returns an error if the connection timed out or was evicted.
    ///
    /// It is polled whenever the stream is pending.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        // A receiver must not be polled again after it has completed; a stream may be.
        let evicted =
            self.evicted.is_terminated() || Pin::new(&mut self.evicted).poll(cx).is_ready();
        if evicted || self.timeout.as_mut().poll(cx).is_ready() {
            return Poll::Ready(io::ErrorKind::TimedOut.into());
        }
        Poll::Pending
    }

    fn restart_timeout(&mut self, answered: bool, within: Duration) {
        self.answered = answered;
        self.timeout.as_mut().reset(Instant::now() + within);
    }

    /// Restarts the timeout after a completed write. Polls it while a write is pending.
    fn after_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_pending() {
            return self.poll_timeout(cx).map(Err);
        }
        self.restart_timeout(true, IDLE_TIMEOUT);
        write
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_pending() {
            return self.poll_timeout(cx).map(Err);
        }
        if self.answered {
            self.restart_timeout(false, REQUEST_TIMEOUT);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.after_write(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.after_write(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S> Drop for ClientConnection<S> {
    fn drop(&mut self) {
        self.connections.open.lock().by_age.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn dropping_an_evicted_connection_evicts_no_other() {
        let connections = ConnectionTracker::new(1);
        let (_client, old) = duplex(1);
        let mut old = connections.admit(old);
        let (_client, new) = duplex(1);
        let mut new = connections.admit(new);
        for _ in 0..2 {
            let error = old.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        let started = Instant::now();
        drop(old);
        new.read_u8().await.unwrap_err();
        assert_eq!(started.elapsed().as_secs(), REQUEST_TIMEOUT.as_secs());
    }
}
