//! Tests the write path. Disabled by default, because each proposal adds an entry to every voter's
//! log.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, HealthCheck, SharedCall};
use tokio::time::{Instant, timeout, timeout_at};

use crate::EtcdError;
use crate::checks::linearizable_read;
use crate::read_index::ReadIndexOutcome;
use crate::shared_calls::SharedCalls;

/// Interval between two proposals of a healthy member, however often the check runs.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

/// Interval between two proposals that etcd rejects. They may be in the log nevertheless.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct RaftPropose {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) proposals: SharedCall<Result<(), EtcdError>>,
    /// After this time, shortly before the response is due, the proposal counts as hanging.
    pub(crate) timeout: Duration,
}

impl HealthCheck for RaftPropose {
    async fn run(&self) -> CheckResult {
        let end = Instant::now() + self.timeout;
        match self.proposals.last() {
            Some((Ok(Ok(()) | Err(EtcdError::Learner)), age))
                if age < INTERVAL && self.answers_reads().await =>
            {
                return Ok(());
            }
            Some((Ok(Err(error)), age)) if age < RETRY_INTERVAL && error.is_response() => {
                return Err(FailureReason::of(error));
            }
            // A failure is not kept, so its end is seen at once. At most two proposals are in
            // flight while they hang.
            _ => {}
        }
        let proposing = self.proposals.get(self.calls.max_age);
        match timeout_at(end, proposing).await {
            Ok(proposed) => linearizable_read::judge(&proposed.map_err(FailureReason::of)?),
            Err(_) => Err(FailureReason::of(format_args!(
                "write path stuck: a proposal without effect was not applied within {:?}",
                self.timeout
            ))),
        }
    }
}

impl RaftPropose {
    /// Returns true if a read index arrives as fast as usual. A log that cannot be written stops
    /// both, so a slow one is a reason to propose at once.
    async fn answers_reads(&self) -> bool {
        let reading = self.calls.read_index.get(self.calls.max_age);
        let read = timeout(self.calls.slow_after, reading).await;
        matches!(
            read,
            Ok(Ok(ReadIndexOutcome::Answered
                | ReadIndexOutcome::Failed(
                    EtcdError::AccessDenied(_) | EtcdError::Learner
                )))
        )
    }
}
