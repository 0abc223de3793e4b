//! A full linearizable read. Disabled by default, because a healthy member that is catching up
//! fails it.

use kelpie_health::{CheckResult, FailureReason};

use crate::EtcdError;

pub(crate) fn judge(read: &Result<(), EtcdError>) -> CheckResult {
    match read {
        // The check `non_learner` judges learners.
        Ok(()) | Err(EtcdError::Learner) => Ok(()),
        Err(error) => Err(FailureReason::of(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_fail_except_on_a_learner() {
        assert!(judge(&Ok(())).is_ok());
        assert!(judge(&Err(EtcdError::Learner)).is_ok());
        assert!(judge(&Err(EtcdError::NoLeader)).is_err());
        assert!(judge(&Err(EtcdError::AccessDenied("x".to_owned()))).is_err());
    }
}
