//! Fails during a defragmentation, when reads and writes wait until it ends.

use std::sync::Arc;

use kelpie_health::{CheckResult, FailureReason, HealthCheck};
use tokio::time::timeout;

use crate::defrag::DefragState;
use crate::shared_calls::SharedCalls;

pub(crate) struct Defragmentation(pub(crate) Arc<SharedCalls>);

impl HealthCheck for Defragmentation {
    async fn run(&self) -> CheckResult {
        // Only the current state matters, so no watch spans several observations.
        let metrics = self.0.metrics_within(self.0.max_age).await;
        let inflight = metrics.as_ref().and_then(|metrics| metrics.defrag_inflight);
        let ping = if inflight.is_none() {
            // Reading the metrics may have taken most of the time.
            let calling = timeout(self.0.max_age / 5, self.0.ping.get(self.0.max_age));
            calling.await.ok().and_then(Result::ok)
        } else {
            None
        };
        self.0.check_metrics_listener(ping.as_ref());
        judge(DefragState::from_signals(metrics.as_ref(), ping.as_ref()))
    }
}

/// An unknown state fails nothing. The log and the `probe_misconfigured` gauge show it.
fn judge(defrag: DefragState) -> CheckResult {
    match defrag {
        DefragState::Running => Err(FailureReason::from("a defragmentation is running")),
        DefragState::Idle | DefragState::Unknown => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_defrag_fails() {
        assert!(judge(DefragState::Running).is_err());
        assert!(judge(DefragState::Idle).is_ok());
        assert!(judge(DefragState::Unknown).is_ok());
    }
}
