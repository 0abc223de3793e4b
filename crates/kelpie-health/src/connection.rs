//! A connection that does not wait forever for its client.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// From the first byte of a request, or from accepting the connection, to the first byte of its
/// answer. No trickle of bytes prolongs it.
pub(crate) const REQUEST: Duration = Duration::from_secs(30);

/// Between the last byte written and the next request, or the next byte the client takes.
pub(crate) const IDLE: Duration = Duration::from_secs(75);

/// The connections that are open, oldest first. Above the limit the oldest goes, so that those who
/// hold connections open cannot keep a supervisor out.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// By the order of their coming. A connection ends when its sender is dropped.
    by_age: BTreeMap<u64, oneshot::Sender<()>>,
    /// Never used twice: one that was let go may live on for a moment.
    next: u64,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        let open = Arc::default();
        Self { limit, open }
    }

    /// Takes a connection in.
    pub(crate) fn admit<S>(&self, stream: S) -> Connection<S> {
        let (evict, evicted) = oneshot::channel();
        let mut open = self.lock();
        while open.by_age.len() >= self.limit {
            open.by_age.pop_first();
        }
        let key = open.next;
        open.next += 1;
        open.by_age.insert(key, evict);
        Connection {
            stream,
            key,
            connections: self.clone(),
            evicted,
            answered: false,
            alarm: Box::pin(sleep(REQUEST)),
        }
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        self.lock().by_age.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that fails with `TimedOut` when its client is too slow, or when it has to make room.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    key: u64,
    connections: Connections,
    evicted: oneshot::Receiver<()>,
    /// The last byte was ours: the client owes us nothing.
    answered: bool,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Connection<S> {
    /// Asked whenever the stream has nothing to do: is it time to go?
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        // A receiver that has answered must not be asked again; a stream may be.
        let evicted =
            self.evicted.is_terminated() || Pin::new(&mut self.evicted).poll(cx).is_ready();
        if evicted || self.alarm.as_mut().poll(cx).is_ready() {
            return Poll::Ready(io::ErrorKind::TimedOut.into());
        }
        Poll::Pending
    }

    fn expect(&mut self, answered: bool, within: Duration) {
        self.answered = answered;
        self.alarm.as_mut().reset(Instant::now() + within);
    }

    /// A write that went through, or one that waits for the client.
    fn wrote<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_pending() {
            return self.poll_patience(cx).map(Err);
        }
        self.expect(true, IDLE);
        write
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_pending() {
            return self.poll_patience(cx).map(Err);
        }
        if self.answered {
            self.expect(false, REQUEST);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(cx, write)
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

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.connections.lock().by_age.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn the_late_goodbye_of_one_that_was_let_go_ends_no_other() {
        let connections = Connections::new(1);
        let (_client, old) = duplex(1);
        let mut old = connections.admit(old);
        let (_client, young) = duplex(1);
        let mut young = connections.admit(young);
        for _ in 0..2 {
            let error = old.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        let began = Instant::now();
        drop(old);
        young.read_u8().await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), REQUEST.as_secs());
    }
}
