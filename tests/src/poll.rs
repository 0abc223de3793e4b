//! Waiting for a condition, with a timeout.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{sleep, timeout};

use crate::port;
use crate::process::ServerProcess;

/// The pause between two checks: short compared to the wait, long compared to the cost of a check.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Calls `check` until it returns a value.
///
/// An error of `check` ends the wait at once. A wait longer than `limit` is an error that names
/// `what` was waited for.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut check: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let wait = async {
        loop {
            if let Some(value) = check().await? {
                return Ok(value);
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(limit, wait)
        .await
        .with_context(|| format!("timed out after {limit:?} waiting for {what}"))?
}

/// Waits until a new server is ready, as reported by `is_ready`.
///
/// Returns false if another process took the port of the server. A server that exits for another
/// reason, or is not ready in time, is an error with the end of its log.
pub(crate) async fn until_serving(
    process: &mut ServerProcess,
    what: &str,
    limit: Duration,
    mut is_ready: impl AsyncFnMut(&ServerProcess) -> bool,
) -> Result<bool> {
    let serving = until(what, limit, async || {
        if port::was_lost(process) {
            return Ok(Some(false));
        }
        if process.has_exited() {
            bail!("it exited");
        }
        Ok(is_ready(process).await.then_some(true))
    });
    let serving = serving.await;
    serving.with_context(|| process.log_tail())
}
