//! Fails if the raft loop is stuck. [`crate::raft_progress`] distinguishes that from a lost quorum.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, HealthCheck, SharedCall};
use tokio::join;
use tokio::time::{Instant, timeout};

use crate::raft_progress::stuck_for;
use crate::shared_calls::SharedCalls;
use crate::{EtcdError, EtcdMetrics};

/// Maximum age of the number of members.
const MEMBER_COUNT_AGE: Duration = Duration::from_mins(1);

pub(crate) struct RaftLoop {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) election_timeout: Duration,
    pub(crate) scope: RaftLoopScope,
    /// Maximum time to wait for responses. Later responses are still recorded when they arrive.
    pub(crate) timeout: Duration,
}

/// The clusters in which the check may fail.
pub(crate) enum RaftLoopScope {
    AnyCluster,
    /// Clusters of one member. No other member confirms its reads, so nothing but its own loop can
    /// hold them up.
    SingleMember(SharedCall<Result<usize, EtcdError>>),
}

impl HealthCheck for RaftLoop {
    async fn run(&self) -> CheckResult {
        let SharedCalls { max_age, .. } = *self.calls;
        if !self.is_in_scope().await {
            return Ok(());
        }
        let calling = async {
            join!(
                self.calls.read_index.get(max_age),
                self.calls.status.get(max_age)
            )
        };
        // Both calls record their results in `raft_progress`, now or after this timeout.
        let calling = self.calls.unless_defrag(calling);
        let _ = timeout(self.timeout / 2, calling).await;
        let stalled = self.calls.stalled_for(Instant::now());
        let no_snapshot = EtcdMetrics::default();
        if stuck_for(stalled, self.election_timeout, false, Some(&no_snapshot)).is_none() {
            return Ok(());
        }
        // The loop seems stuck. The metrics show whether there is another explanation.
        let metrics = timeout(self.timeout / 2, self.calls.metrics_within(max_age)).await;
        let metrics = metrics.ok().flatten();
        let defrag = self.calls.was_defragmenting();
        match stuck_for(stalled, self.election_timeout, defrag, metrics.as_ref()) {
            None => Ok(()),
            Some(stuck) => Err(FailureReason::of(format_args!(
                "raft loop stuck: there is a leader, but for {}s no entry was committed or \
                 applied and no linearizable read completed",
                stuck.as_secs()
            ))),
        }
    }
}

impl RaftLoop {
    /// Returns true if the check may fail in this cluster. It asks once a minute, because livez of
    /// other clusters should cost one call.
    async fn is_in_scope(&self) -> bool {
        let count = match &self.scope {
            RaftLoopScope::AnyCluster => return true,
            RaftLoopScope::SingleMember(count) => count,
        };
        match count.last() {
            Some((Ok(Ok(members)), age)) if age < MEMBER_COUNT_AGE => members == 1,
            _ => {
                let counted = timeout(self.timeout / 4, count.get(self.calls.max_age)).await;
                matches!(counted, Ok(Ok(Ok(1))))
            }
        }
    }
}
