//! A full linearizable read. Off by default: a member that catches up fails it and is still fine.

use kelpie_health::{Check, Reason, Shared, Verdict};
use std::time::Duration;

use crate::Fault;

pub(crate) struct LinearizableRead {
    pub(crate) read: Shared<Result<(), Fault>>,
    pub(crate) fresh: Duration,
}

impl Check for LinearizableRead {
    async fn run(&self) -> Verdict {
        judge(&self.read.get(self.fresh).await.map_err(Reason::of)?)
    }
}

fn judge(read: &Result<(), Fault>) -> Verdict {
    match read {
        // Whether the member may be a learner is for another check.
        Ok(()) | Err(Fault::Learner) => Ok(()),
        Err(fault) => Err(Reason::of(fault)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_fails_and_a_learner_is_judged_elsewhere() {
        assert!(judge(&Ok(())).is_ok());
        assert!(judge(&Err(Fault::Learner)).is_ok());
        assert!(judge(&Err(Fault::NoLeader)).is_err());
        assert!(judge(&Err(Fault::Denied("x".to_owned()))).is_err());
    }
}
