//! Checks that judge what the member says of itself.

use std::sync::Arc;

use kelpie_health::{Check, Reason, Verdict};

use crate::Status;
use crate::calls::Calls;
use crate::defrag::Watch;

/// A judgement of the member's status. While a defragmentation keeps the status from coming, the
/// last judgement stays good.
pub(crate) struct FromStatus {
    pub(crate) calls: Arc<Calls>,
    pub(crate) judge: fn(&Status) -> Verdict,
}

impl Check for FromStatus {
    async fn run(&self) -> Verdict {
        let status = self.calls.status.get(self.calls.fresh).await;
        (self.judge)(&status.map_err(Reason::of)?.map_err(Reason::of)?)
    }

    fn holds(&self) -> bool {
        self.calls.was_defragmenting()
    }

    async fn held(&self) {
        // What ended before does not keep the status from coming now.
        let mut watch = Watch::new(None);
        self.calls.look_until_defrag(&mut watch).await;
    }
}

/// No member has found its data to differ from the others'. Alarms are taken from the status: to
/// ask for alarms is a raft proposal.
pub(crate) fn data_corruption(status: &Status) -> Verdict {
    if status.is_corrupt {
        return Err(Reason::from("alarm activated: CORRUPT"));
    }
    Ok(())
}

/// The member votes.
pub(crate) fn non_learner(status: &Status) -> Verdict {
    if status.is_learner {
        return Err(Reason::from("not supported for learner"));
    }
    Ok(())
}
