//! A stream that yields to other tasks at random.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fastrand::Rng;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// The exclusive upper bound of yields before a read or write.
const MAX_YIELDS: u8 = 4;

/// The server's end of a connection. A single-threaded runtime polls tasks that are ready at the
/// same instant in a fixed order. This stream yields a random number of times before each read and
/// write, so that different RNG seeds give different orders.
pub(super) struct YieldingStream {
    stream: DuplexStream,
    rng: Option<Rng>,
    /// The yields left before the current read or write, if one is waiting.
    yields_left: Option<u8>,
}

impl YieldingStream {
    /// Creates a stream that never yields if `rng` is `None`.
    pub(super) fn new(stream: DuplexStream, rng: Option<Rng>) -> Self {
        Self {
            stream,
            rng,
            yields_left: None,
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Pin<&mut DuplexStream>> {
        let yields_left = match self.yields_left {
            None => self.rng.as_mut().map_or(0, |rng| rng.u8(0..MAX_YIELDS)),
            Some(yields_left) => yields_left,
        };
        self.yields_left = yields_left.checked_sub(1);
        if self.yields_left.is_some() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Pin::new(&mut self.stream))
    }
}

impl AsyncRead for YieldingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_turn(cx)).poll_read(cx, into)
    }
}

impl AsyncWrite for YieldingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx)).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::sync::mpsc;

    use super::*;

    /// Returns the order in which four connections receive what was sent to them one after the
    /// other.
    async fn order(rng_seed: u64) -> Vec<usize> {
        let mut rng = Rng::with_seed(rng_seed);
        let (received, mut order) = mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for number in 0..4 {
            let (mut ours, theirs) = duplex(16);
            let (mut stream, received) = (
                YieldingStream::new(theirs, Some(rng.fork())),
                received.clone(),
            );
            ours.write_all(b"?").await.unwrap();
            ends.push(ours);
            tokio::spawn(async move {
                assert_eq!(stream.read_u8().await.unwrap(), b'?');
                received.send(number).unwrap();
            });
        }
        drop(received);
        let mut numbers = Vec::new();
        while let Some(number) = order.recv().await {
            numbers.push(number);
        }
        numbers
    }

    #[tokio::test]
    async fn order_depends_on_rng_seed_only() {
        let mut orders = Vec::new();
        for rng_seed in 0..20 {
            let first = order(rng_seed).await;
            assert_eq!(first, order(rng_seed).await);
            if !orders.contains(&first) {
                orders.push(first);
            }
        }
        assert!(orders.len() > 5, "{orders:?}");
    }
}
