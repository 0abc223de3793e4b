//! Time that goes by faster than on the wall.

use std::sync::mpsc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::advance;

/// So often time is moved on: a frame of an animation.
const FRAME: Duration = Duration::from_millis(10);

/// Moves the runtime's paused time on, `speed` times as fast as the wall's, until it is dropped. The
/// runtime must have one thread and paused time; without this, such time jumps ahead whenever
/// everybody waits.
pub async fn keep_pace(speed: f64) {
    let step = FRAME.mul_f64(speed.clamp(0.01, 10_000.0));
    let mut frame = wait();
    loop {
        // While somebody works on another thread, time does not jump; so there is always one.
        let next = wait();
        let _ = frame.await;
        frame = next;
        advance(step).await;
    }
}

/// Waits on the wall.
fn wait() -> JoinHandle<()> {
    spawn_blocking(|| {
        let (_never, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(FRAME);
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "it is about the wall's time")]
    async fn time_goes_by_as_fast_as_it_is_told_to() {
        let pace = tokio::spawn(keep_pace(100.0));
        let (wall, begun) = (std::time::Instant::now(), Instant::now());
        sleep(Duration::from_secs(20)).await;
        assert!(begun.elapsed() < Duration::from_secs(30));
        let took = wall.elapsed();
        // A loaded machine may be slower; faster it must not be.
        assert!(took >= Duration::from_millis(100), "{took:?}");
        pace.abort();
    }
}
