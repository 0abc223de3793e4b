//! A stream that lets others go first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fastrand::Rng;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Others go first for fewer turns than that.
const TURNS: u8 = 4;

/// The server's end of a connection. A runtime with one thread lets tasks that are ready at the same instant
/// go in the order in which they became so, always the same; this one steps back behind the others for a
/// random number of turns before it hears or says anything, so that another seed is another order.
pub(super) struct Shuffled {
    stream: DuplexStream,
    rng: Option<Rng>,
    /// Turns to wait, while it does.
    left: Option<u8>,
}

impl Shuffled {
    /// Without dice it never waits.
    pub(super) fn new(stream: DuplexStream, rng: Option<Rng>) -> Self {
        Self {
            stream,
            rng,
            left: None,
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Pin<&mut DuplexStream>> {
        let left = match self.left {
            None => self.rng.as_mut().map_or(0, |rng| rng.u8(0..TURNS)),
            Some(left) => left,
        };
        self.left = left.checked_sub(1);
        if self.left.is_some() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Pin::new(&mut self.stream))
    }
}

impl AsyncRead for Shuffled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.wait(cx)).poll_read(cx, into)
    }
}

impl AsyncWrite for Shuffled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.wait(cx)).poll_write(cx, bytes)
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

    /// In which order four connections hear what was said to them one after the other.
    async fn order(seed: u64) -> Vec<usize> {
        let mut rng = Rng::with_seed(seed);
        let (heard, mut order) = mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for number in 0..4 {
            let (mut ours, theirs) = duplex(16);
            let (mut stream, heard) = (Shuffled::new(theirs, Some(rng.fork())), heard.clone());
            ours.write_all(b"?").await.unwrap();
            ends.push(ours);
            tokio::spawn(async move {
                assert_eq!(stream.read_u8().await.unwrap(), b'?');
                heard.send(number).unwrap();
            });
        }
        drop(heard);
        let mut numbers = Vec::new();
        while let Some(number) = order.recv().await {
            numbers.push(number);
        }
        numbers
    }

    #[tokio::test]
    async fn who_is_heard_first_depends_on_the_seed_alone() {
        let mut orders = Vec::new();
        for seed in 0..20 {
            let one = order(seed).await;
            assert_eq!(one, order(seed).await);
            if !orders.contains(&one) {
                orders.push(one);
            }
        }
        assert!(orders.len() > 5, "{orders:?}");
    }
}
