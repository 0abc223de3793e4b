//! Reads as much as a socket has available.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

/// The size of a TLS record, or of the leases of fifty nodes.
const READ_SIZE: usize = 16 * 1024;

/// A buffered socket below TLS. rustls reads four kilobytes at a time, and each read is a system
/// call that costs more than all other processing of those bytes. Between responses no buffer is
/// allocated.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    socket: TcpStream,
    /// Bytes that were read from the socket but not consumed yet.
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
            // A caller that waits for a response holds no buffer either.
            ready!(socket.poll_read_ready(cx))?;
            ahead.reserve(READ_SIZE);
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
    async fn bytes_stay_in_order_and_buffer_is_freed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap());
        let mut socket = ReadAhead::new(socket.await.unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(3 * READ_SIZE + 5).collect();
        let (to_send, buffer) = (sent.clone(), &mut [0; 4_096]);
        let sending = tokio::spawn(async move {
            peer.write_all(&to_send).await.unwrap();
            drop(peer);
        });
        let mut read = Vec::new();
        loop {
            let length = socket.read(buffer).await.unwrap();
            if length == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..length]);
        }
        sending.await.unwrap();
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
        assert_eq!(socket.ahead.capacity(), 0);
        assert_eq!(
            socket.read(buffer).await.unwrap(),
            0,
            "end of stream is final"
        );
    }
}
