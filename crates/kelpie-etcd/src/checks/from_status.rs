//! Checks that judge the member's status.

use std::sync::Arc;

use kelpie_health::{CheckResult, FailureReason, HealthCheck};

use crate::MemberStatus;
use crate::defrag::DefragWatch;
use crate::shared_calls::SharedCalls;

/// Judges the member's status. Its last result stays valid while a defragmentation blocks the
/// status call.
pub(crate) struct StatusCheck {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) judge: fn(&MemberStatus) -> CheckResult,
}

impl HealthCheck for StatusCheck {
    async fn run(&self) -> CheckResult {
        let status = self.calls.status.get(self.calls.max_age).await;
        let status = status.map_err(FailureReason::of)?;
        (self.judge)(&status.map_err(FailureReason::of)?)
    }

    fn may_reuse_last(&self) -> bool {
        self.calls.was_defragmenting()
    }

    async fn wait_until_reusable(&self) {
        // A defragmentation that has already ended does not block the status call now.
        let mut watch = DefragWatch::new(None);
        self.calls.wait_for_defrag(&mut watch).await;
    }
}

/// Fails if a member has found its data to differ from the others'.
///
/// The alarm is read from the status, because listing alarms is a raft proposal.
pub(crate) fn data_corruption(status: &MemberStatus) -> CheckResult {
    if status.is_corrupt {
        return Err(FailureReason::from("alarm activated: CORRUPT"));
    }
    Ok(())
}

/// Fails if the member is a learner and does not vote.
pub(crate) fn non_learner(status: &MemberStatus) -> CheckResult {
    if status.is_learner {
        return Err(FailureReason::from("not supported for learner"));
    }
    Ok(())
}
