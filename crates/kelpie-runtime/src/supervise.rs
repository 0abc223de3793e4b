//! Restarting a task that panicked, and waiting for tasks at a shutdown.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The delay before a task that panicked is started again.
pub const RESTART_DELAY: Duration = Duration::from_secs(10);

/// Runs a task until it ends. A task that panics is started again after a delay, unless `cancelled`
/// comes first. `on_panic` is called for each panic.
///
/// A panic in one task must not end the others. The task is built anew for each start, so that
/// nothing of a half-changed state survives.
pub async fn supervise<F: Future<Output = ()>>(
    mut start: impl FnMut() -> F,
    cancelled: &CancellationToken,
    mut on_panic: impl FnMut(),
) {
    while AssertUnwindSafe(start()).catch_unwind().await.is_err() {
        on_panic();
        if cancelled
            .run_until_cancelled(sleep(RESTART_DELAY))
            .await
            .is_none()
        {
            return;
        }
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
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn panicked_task_restarts_after_the_delay() {
        let (starts, panics) = (Cell::new(0), Cell::new(0));
        let begin = Instant::now();
        let start = || async {
            starts.set(starts.get() + 1);
            assert!(starts.get() > 2, "two panics");
        };
        let count = || panics.set(panics.get() + 1);
        supervise(start, &CancellationToken::new(), count).await;
        assert_eq!((starts.get(), panics.get()), (3, 2));
        assert_eq!(begin.elapsed(), 2 * RESTART_DELAY);
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
        supervise(start, &cancelled, || ()).await;
        assert_eq!(starts.get(), 1);
    }
}
