//! Waiting for something to become true, with a deadline.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};

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
