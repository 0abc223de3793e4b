//! Fails if a watch gets no answer. It asks a watch on a key that nothing writes for its progress,
//! which takes the way of events through the member's watch loop and writes nothing.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, HealthCheck, SharedCall};
use tokio::time::{Instant, timeout};

use crate::checks::linearizable_read;
use crate::shared_calls::SharedCalls;
use crate::{EtcdError, Member, WatchProgress};

/// Time limit of a request. Later probes then try a new watch, which may work.
const MAX_WAIT: Duration = Duration::from_secs(10);

pub(crate) struct Watch {
    pub(crate) calls: Arc<SharedCalls>,
    /// The requests, with the time that each answer took.
    pub(crate) progress: SharedCall<Result<Duration, EtcdError>>,
    /// After this time, shortly before the response is due, the request counts as hanging.
    pub(crate) timeout: Duration,
    /// Slow is not unready: a watch that was asked this recently and answered is not stuck.
    pub(crate) max_silence: Duration,
}

/// Asks once, and returns the time that the answer took.
pub(crate) async fn ask(member: Arc<dyn Member>) -> Result<Duration, EtcdError> {
    let started = Instant::now();
    let asked = timeout(MAX_WAIT, member.watch_progress()).await;
    asked.unwrap_or(Err(EtcdError::NoResponse))?;
    Ok(started.elapsed())
}

impl HealthCheck for Watch {
    async fn run(&self) -> CheckResult {
        if !self.is_supported().await {
            return Ok(());
        }
        let asking = self.progress.get(self.calls.max_age);
        // A write that waits for the end of a defragmentation holds up the watch loop.
        match timeout(self.timeout, self.calls.unless_defrag(asking)).await {
            Ok(None) => Ok(()),
            Ok(Some(asked)) => {
                let asked = asked.map_err(FailureReason::of)?;
                linearizable_read::judge(&asked.map(|_| ()))
            }
            Err(_) => {
                let asked = match self.progress.last() {
                    Some((Ok(Ok(took)), age)) => Some(took + age),
                    _ => None,
                };
                judge_silence(asked, self.max_silence)
            }
        }
    }
}

impl Watch {
    /// Returns false if the release never answers. The status is known after the first probe.
    async fn is_supported(&self) -> bool {
        let status = &self.calls.status;
        if status.last().is_none() {
            let _ = timeout(self.calls.slow_after, status.get(self.calls.max_age)).await;
        }
        !matches!(
            status.last(),
            Some((Ok(Ok(status)), _)) if status.watch_progress == WatchProgress::NeedsEvents
        )
    }
}

/// Decides about a watch that does not answer now. `asked` is the time since the request that was
/// answered last. An answer that took long says that the watch worked when it was asked, not later.
fn judge_silence(asked: Option<Duration>, max_silence: Duration) -> CheckResult {
    match asked {
        Some(asked) if asked < max_silence => Ok(()),
        Some(asked) => Err(FailureReason::of(format_args!(
            "watch stuck: a watch has not answered for {}s",
            asked.as_secs()
        ))),
        None => Err(FailureReason::from("watch stuck: a watch does not answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_a_failure_after_a_while() {
        let limit = Duration::from_secs(5);
        let judge = |asked| judge_silence(asked, limit).map_err(|it| it.to_string());
        assert_eq!(judge(Some(limit / 2)), Ok(()));
        let stuck = "watch stuck: a watch has not answered for 5s".to_owned();
        assert_eq!(judge(Some(limit)), Err(stuck));
        let never = "watch stuck: a watch does not answer".to_owned();
        assert_eq!(judge(None), Err(never));
    }
}
