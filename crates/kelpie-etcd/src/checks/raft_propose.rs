//! Tests the write path. Disabled by default, because each proposal adds an entry to every voter's
//! log.

use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, HealthCheck, SharedCall};

use crate::EtcdError;
use crate::checks::linearizable_read;

/// Minimum interval between two proposals, however often the check runs.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct RaftPropose(pub(crate) SharedCall<Result<(), EtcdError>>);

impl HealthCheck for RaftPropose {
    async fn run(&self) -> CheckResult {
        let last = self.0.last().filter(|(_, age)| *age < INTERVAL);
        let proposed = match last {
            // It added nothing to the log, so the next one need not wait.
            Some((Ok(Err(EtcdError::ConnectionRefused | EtcdError::Misconfigured(_))), _)) => {
                self.0.get(Duration::ZERO).await
            }
            Some((last, _)) => last,
            None => self.0.get(INTERVAL).await,
        };
        linearizable_read::judge(&proposed.map_err(FailureReason::of)?)
    }
}
