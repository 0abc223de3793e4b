//! Fails while the member's disk or its apply loop is too slow. Disabled by default, because slow
//! is not unready.

use std::sync::Arc;

use kelpie_health::{CheckResult, FailureReason, HealthCheck};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::performance::PerformanceHistory;
use crate::shared_calls::SharedCalls;

pub(crate) struct Performance {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) history: Mutex<PerformanceHistory>,
}

impl HealthCheck for Performance {
    async fn run(&self) -> CheckResult {
        // Without metrics nothing is known. Their absence is shown by `probe_misconfigured`.
        let metrics = self.calls.metrics_within(self.calls.max_age).await;
        let mut history = self.history.lock();
        if let Some(metrics) = metrics {
            history.record(Instant::now(), &metrics);
        }
        match history.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(FailureReason::of(problems.join("; "))),
        }
    }
}
