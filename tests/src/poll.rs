//! Waiting for something to become true, with a deadline.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{sleep, timeout};

use crate::port;
use crate::process::Process;

/// Between two looks: short beside what is waited for, long beside what a look costs.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks again and again until there is a value. An error of `look` ends the waiting at once; no
/// value within `patience` is an error that says `what` was waited for.
pub async fn until<T>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let wait = async {
        loop {
            if let Some(value) = look().await? {
                return Ok(value);
            }
            sleep(PAUSE).await;
        }
    };
    timeout(patience, wait)
        .await
        .with_context(|| format!("waited {patience:?} for {what}"))?
}

/// True once `answers` says that the server does, false if it lost its port. A server that ended for
/// another reason, or has not answered in time, is an error with the end of its log.
pub(crate) async fn until_serving(
    process: &mut Process,
    what: &str,
    patience: Duration,
    mut answers: impl AsyncFnMut(&Process) -> bool,
) -> Result<bool> {
    let serving = until(what, patience, async || {
        if port::was_lost(process) {
            return Ok(Some(false));
        }
        if process.has_ended() {
            bail!("it ended");
        }
        Ok(answers(process).await.then_some(true))
    });
    let serving = serving.await;
    serving.with_context(|| process.log_tail())
}
