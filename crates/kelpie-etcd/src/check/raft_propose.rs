//! Does the way of a write work? Off by default: each look is an entry in every voter's log.

use std::time::Duration;

use kelpie_health::{Check, Reason, Shared, Verdict};

use crate::Fault;

/// Between two proposals, however often the check is asked.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct RaftPropose(pub(crate) Shared<Result<(), Fault>>);

impl Check for RaftPropose {
    async fn run(&self) -> Verdict {
        let proposed = match self.0.last() {
            Some((last, age)) if age < INTERVAL => last,
            _ => self.0.get(INTERVAL).await,
        };
        match proposed.map_err(Reason::of)? {
            Ok(()) | Err(Fault::Learner) => Ok(()),
            Err(fault) => Err(Reason::of(fault)),
        }
    }
}
