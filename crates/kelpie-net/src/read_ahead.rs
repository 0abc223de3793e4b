//! Takes from a socket all that is there.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

/// A TLS record, or the leases of fifty nodes.
const AT_ONCE: usize = 16 * 1024;

/// A socket below TLS, which asks for four kilobytes at a time: each a call to the kernel, which costs
/// more than all else that is done with them. Between answers there is no buffer.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    socket: TcpStream,
    /// What was read and is not asked for yet.
    ahead: BytesMut,
}

impl ReadAhead {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            ahead: BytesMut::new(),
        }
    }
}

impl AsyncRead for ReadAhead {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, ahead } = self.get_mut();
        if ahead.is_empty() {
            // Whoever waits for an answer has no buffer either.
            ready!(socket.poll_read_ready(cx))?;
            ahead.reserve(AT_ONCE);
            let read = poll_read_buf(Pin::new(socket), cx, ahead);
            if ahead.is_empty() {
                *ahead = BytesMut::new();
                return read.map_ok(|_| ());
            }
        }
        let length = ahead.len().min(buf.remaining());
        buf.put_slice(&ahead[..length]);
        ahead.advance(length);
        if ahead.is_empty() {
            *ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_is_given_in_order_and_nothing_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap());
        let mut socket = ReadAhead::new(socket.await.unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(3 * AT_ONCE + 5).collect();
        let (told, heard) = (sent.clone(), &mut [0; 4_096]);
        let telling = tokio::spawn(async move {
            peer.write_all(&told).await.unwrap();
            drop(peer);
        });
        let mut read = Vec::new();
        loop {
            let length = socket.read(heard).await.unwrap();
            if length == 0 {
                break;
            }
            read.extend_from_slice(&heard[..length]);
        }
        telling.await.unwrap();
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
        assert_eq!(socket.ahead.capacity(), 0);
        assert_eq!(
            socket.read(heard).await.unwrap(),
            0,
            "the end stays the end"
        );
    }
}
