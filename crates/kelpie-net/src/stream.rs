//! A byte stream to a peer, with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

use crate::fault::TlsFault;
use crate::read_ahead::ReadAhead;

/// A stream to a server, as [`crate::connect`] makes it.
#[derive(Debug)]
pub struct Stream(Kind, Option<Note>);

/// The TLS fault that ended a stream, for who sees only that it ended: HTTP/2 keeps no more of an
/// error than its text, and with TLS 1.3 a server refuses a client certificate after the handshake.
/// Clones are the same note.
#[derive(Clone, Debug, Default)]
pub struct Note(Arc<Mutex<Option<TlsFault>>>);

impl Note {
    /// The fault, if there was one.
    pub fn read(&self) -> Option<TlsFault> {
        self.slot().clone()
    }

    /// Nothing has happened yet.
    pub fn clear(&self) {
        *self.slot() = None;
    }

    fn write(&self, error: &io::Error) {
        if let Some(fault) = TlsFault::under(error) {
            *self.slot() = Some(fault);
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<TlsFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Stream`] as hyper and tonic want it.
pub type HyperStream = TokioIo<Stream>;

/// A stream to a client, as [`crate::TlsListener`] accepts it.
pub type ServerStream = server::TlsStream<TcpStream>;

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    // Boxed: it is a kilobyte, and streams are moved about.
    Tls(Box<client::TlsStream<ReadAhead>>),
    Inside(DuplexStream),
}

impl Stream {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        Self(Kind::Plain(stream), None)
    }

    pub(crate) fn inside(stream: DuplexStream) -> Self {
        Self(Kind::Inside(stream), None)
    }

    pub(crate) fn tls(stream: client::TlsStream<ReadAhead>) -> Self {
        Self(Kind::Tls(Box::new(stream)), None)
    }

    /// A server that refuses us says why and closes; a write can fail before that is read. So such
    /// a failure waits for the last words, which are there already or never come: a stream that was
    /// reset is readable at once.
    fn last_words<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let (Poll::Ready(Err(error)), Kind::Tls(stream), Some(note)) =
            (&written, &mut self.0, &self.1)
        else {
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
            Poll::Ready(Err(error)) => note.write(&error),
            Poll::Ready(Ok(())) => {}
        }
        written
    }

    /// The same stream, whose end by a TLS fault is noted.
    #[must_use]
    pub fn noted(mut self, note: Note) -> Self {
        self.1 = Some(note);
        self
    }

    /// Whether the peer, of whom nothing is awaited, neither closed the stream nor said anything.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut nobody = Context::from_waker(Waker::noop());
        Pin::new(self)
            .poll_read(&mut nobody, &mut buffer)
            .is_pending()
    }

    /// As hyper and tonic want it.
    pub fn into_hyper(self) -> HyperStream {
        TokioIo::new(self)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Kind::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Kind::Inside(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if let (Poll::Ready(Err(error)), Some(note)) = (&read, &self.1) {
            note.write(error);
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
        let written = match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Kind::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Kind::Inside(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.last_words(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Kind::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Kind::Inside(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.last_words(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Kind::Plain(stream) => stream.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
            Kind::Inside(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Kind::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Kind::Inside(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.last_words(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Inside(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
