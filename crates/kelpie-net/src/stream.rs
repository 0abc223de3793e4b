//! A byte stream to a peer, with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{client, server};

use crate::read_ahead::ReadAhead;
use crate::tls_fault::TlsFault;

/// A stream to a server, opened by [`crate::connect`].
#[derive(Debug)]
pub struct Stream(StreamKind, Option<StreamEndRecorder>);

/// Records how a stream ended, for callers that see only that it did: the TLS fault, and for how
/// long the server had been silent. HTTP/2 keeps only the text of an error, and with TLS 1.3 a
/// server rejects a client certificate after the handshake. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct StreamEndRecorder(Arc<Mutex<StreamEnd>>);

#[derive(Debug, Default)]
struct StreamEnd {
    fault: Option<TlsFault>,
    /// The last bytes, the end or an error was received at this instant.
    last_received: Option<Instant>,
    /// The time from then until the stream was dropped.
    silence: Option<Duration>,
}

impl StreamEndRecorder {
    /// Returns the recorded fault, if any.
    pub fn fault(&self) -> Option<TlsFault> {
        self.0.lock().fault.clone()
    }

    /// Forgets the recorded fault.
    pub fn clear(&self) {
        self.0.lock().fault = None;
    }

    /// Returns the time for which nothing was received before the last stream was dropped.
    pub fn silence(&self) -> Option<Duration> {
        self.0.lock().silence
    }

    fn record(&self, error: &io::Error) {
        if let Some(fault) = TlsFault::in_error_chain(error) {
            self.0.lock().fault = Some(fault);
        }
    }

    fn record_received(&self) {
        self.0.lock().last_received = Some(Instant::now());
    }

    fn record_drop(&self) {
        let mut end = self.0.lock();
        end.silence = end.last_received.take().map(|at| at.elapsed());
    }
}

/// A [`Stream`] with the I/O traits of hyper and tonic.
pub type HyperStream = TokioIo<Stream>;

/// A stream to a client, accepted by [`crate::TlsListener`].
pub type ServerStream = server::TlsStream<TcpStream>;

#[derive(Debug)]
pub(crate) enum StreamKind {
    Tcp(TcpStream),
    // Boxed because it takes a kilobyte and streams are moved often.
    Tls(Box<client::TlsStream<ReadAhead>>),
    InProcess(DuplexStream),
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> ReadWrite for S {}

impl StreamKind {
    fn inner(&mut self) -> Pin<&mut dyn ReadWrite> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(&mut **stream),
            Self::InProcess(stream) => Pin::new(stream),
        }
    }
}

impl Stream {
    pub(crate) fn new(kind: StreamKind) -> Self {
        Self(kind, None)
    }

    /// Reads the alert of a server that rejects the client. The server sends the alert and closes,
    /// so a write can fail before the alert was read. Such a failure waits for the alert, which
    /// either is available already or never arrives: a reset stream is readable at once.
    fn read_pending_alert<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let (Poll::Ready(Err(error)), Some(recorder)) = (&written, &self.1) else {
            return written;
        };
        recorder.record_received();
        let StreamKind::Tls(stream) = &mut self.0 else {
            return written;
        };
        let reset = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        if !reset.contains(&error.kind()) {
            return written;
        }
        let mut bytes = [0; 512];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(stream).poll_read(cx, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => recorder.record(&error),
            Poll::Ready(Ok(())) => {}
        }
        written
    }

    /// Records the end of the stream in `recorder`.
    #[must_use]
    pub fn with_end_recorder(mut self, recorder: StreamEndRecorder) -> Self {
        recorder.record_received();
        self.1 = Some(recorder);
        self
    }

    /// Returns true if the peer has neither closed the stream nor sent anything. The caller must
    /// not be waiting for a response.
    pub(crate) fn is_idle(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut noop = Context::from_waker(Waker::noop());
        Pin::new(self)
            .poll_read(&mut noop, &mut buffer)
            .is_pending()
    }

    /// Wraps the stream for hyper and tonic.
    pub fn into_hyper(self) -> HyperStream {
        TokioIo::new(self)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(recorder) = &self.1 {
            recorder.record_drop();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.inner().poll_read(cx, buf);
        if let (Poll::Ready(read), Some(recorder)) = (&read, &self.1) {
            recorder.record_received();
            if let Err(error) = read {
                recorder.record(error);
            }
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.0.inner().poll_write(cx, buf);
        self.read_pending_alert(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.0.inner().poll_write_vectored(cx, bufs);
        self.read_pending_alert(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            StreamKind::Tcp(stream) => stream.is_write_vectored(),
            StreamKind::Tls(stream) => stream.is_write_vectored(),
            StreamKind::InProcess(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.0.inner().poll_flush(cx);
        self.read_pending_alert(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.inner().poll_shutdown(cx)
    }
}
