//! Restarting a task that panicked, and waiting for tasks at a shutdown.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The longest delay before a task that panics again and again is started anew.
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// A panic after a run of this length counts as the first one.
const STEADY: Duration = Duration::from_mins(1);

/// Runs a task until it ends. A task that panics is started again, unless `cancelled` comes first:
/// at once after the first panic, and after 1, 2, 4 and so on up to 10 s if it panics again within
/// a minute. `on_panic` is called for each panic with the delay before the next start.
///
/// A panic in one task must not end the others. The task is built anew for each start, so that
/// nothing of a half-changed state survives.
pub async fn supervise<F: Future<Output = ()>>(
    mut start: impl FnMut() -> F,
    cancelled: &CancellationToken,
    mut on_panic: impl FnMut(Duration),
) {
    let mut delay = Duration::ZERO;
    loop {
        let began = Instant::now();
        if AssertUnwindSafe(start()).catch_unwind().await.is_ok() {
            return;
        }
        if began.elapsed() >= STEADY {
            delay = Duration::ZERO;
        }
        on_panic(delay);
        if cancelled.run_until_cancelled(sleep(delay)).await.is_none() {
            return;
        }
        delay = (delay * 2).clamp(Duration::from_secs(1), LONGEST_DELAY);
    }
}

/// Waits for all tasks of a tracker, which must have been told to end. Returns false if some still
/// run after `limit`.
pub async fn drain(tasks: &TaskTracker, limit: Duration) -> bool {
    tasks.close();
    timeout(limit, tasks.wait()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn first_panic_restarts_at_once() {
        let (starts, delays) = (Cell::new(0), RefCell::new(Vec::new()));
        let begin = Instant::now();
        let start = || async {
            starts.set(starts.get() + 1);
            assert!(starts.get() > 7, "seven panics");
        };
        let record = |delay: Duration| delays.borrow_mut().push(delay.as_secs());
        supervise(start, &CancellationToken::new(), record).await;
        assert_eq!(*delays.borrow(), [0, 1, 2, 4, 8, 10, 10]);
        let total: u64 = delays.borrow().iter().sum();
        assert_eq!(begin.elapsed().as_secs(), total);
    }

    #[tokio::test(start_paused = true)]
    async fn steady_run_resets_the_delay() {
        let (starts, delays) = (Cell::new(0), RefCell::new(Vec::new()));
        let start = || async {
            starts.set(starts.get() + 1);
            if starts.get() == 3 {
                sleep(STEADY).await;
            }
            assert!(starts.get() > 4, "four panics");
        };
        let record = |delay: Duration| delays.borrow_mut().push(delay.as_secs());
        supervise(start, &CancellationToken::new(), record).await;
        assert_eq!(*delays.borrow(), [0, 1, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_task_does_not_restart() {
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let starts = Cell::new(0);
        let start = || async {
            starts.set(starts.get() + 1);
            panic!("always");
        };
        supervise(start, &cancelled, |_| ()).await;
        assert_eq!(starts.get(), 1);
    }
}
