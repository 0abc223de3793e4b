//! The trait that every check implements, and its adapters.

use std::time::Duration;

use crate::{FailureReason, SharedCall};

/// The result of one run of a check.
pub type CheckResult = Result<(), FailureReason>;

/// A condition that must hold for the process to be live or ready.
///
/// Closures that return a future of a [`CheckResult`] implement it too.
pub trait HealthCheck: Send + Sync + 'static {
    /// Runs the check once. It must not block its thread.
    ///
    /// It needs no deadline of its own: each waiter leaves at its own deadline, and the run is
    /// dropped after [`HealthSettings::run_timeout`](crate::HealthSettings::run_timeout).
    fn run(&self) -> impl Future<Output = CheckResult> + Send;

    /// Returns true while the last result stays valid at any age.
    ///
    /// The check knows why its run cannot end, and that the delay proves nothing new. This is
    /// called when a readyz response is due and the check is still running.
    fn may_reuse_last(&self) -> bool {
        false
    }

    /// Completes once the check sees that its run cannot end for now and that its last result
    /// [may be reused](HealthCheck::may_reuse_last).
    ///
    /// A readyz response then does not wait for the deadline. This is polled during a run.
    fn wait_until_reusable(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

impl<F, Fut> HealthCheck for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = CheckResult> + Send,
{
    fn run(&self) -> impl Future<Output = CheckResult> + Send {
        self()
    }
}

/// A check that judges the result of a shared call. Created by [`SharedCall::check`].
pub struct SharedCallCheck<T, J> {
    pub(crate) call: SharedCall<T>,
    pub(crate) max_age: Duration,
    pub(crate) judge: J,
}

impl<T, J> HealthCheck for SharedCallCheck<T, J>
where
    T: Clone + Send + Sync + 'static,
    J: Fn(&T) -> CheckResult + Send + Sync + 'static,
{
    async fn run(&self) -> CheckResult {
        let result = self.call.get(self.max_age).await;
        (self.judge)(&result.map_err(FailureReason::of)?)
    }
}
