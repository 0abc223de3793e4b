//! Waiting for tasks at a shutdown.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Waits for all tasks of a tracker, which must have been told to end. Returns false if some still
/// run after `limit`.
pub async fn drain(tasks: &TaskTracker, limit: Duration) -> bool {
    tasks.close();
    timeout(limit, tasks.wait()).await.is_ok()
}
