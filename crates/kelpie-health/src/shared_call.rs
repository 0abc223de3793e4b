//! A call whose concurrent callers share one run.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::check::SharedCallCheck;
use crate::single_flight::{Admission, FinishedRun, RunId, SingleFlight};
use crate::{CheckResult, FailureReason};

/// A run panicked instead of returning a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct CallPanicked(FailureReason);

/// A call whose runs are shared: fifty concurrent callers cost one run.
///
/// Every check is a shared call. Use another one below the checks where several of them need the
/// same data, such as a server's status. A run continues when its waiters leave. It ends when the
/// last handle to the call is dropped, or at the run timeout.
pub struct SharedCall<T> {
    inner: Arc<SharedCallInner<T>>,
}

struct SharedCallInner<T> {
    /// Wakes the waiters whenever a run ends.
    flight: watch::Sender<SingleFlight<Result<T, CallPanicked>>>,
    call: Arc<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>,
    /// Drops runs that take longer, so that two hanging runs do not block the call forever.
    run_timeout: Duration,
    /// Counts the runs started.
    runs: Counter,
    /// Cancels all runs that are in progress.
    cancel: CancellationToken,
    /// Cancels the runs once the last handle is dropped.
    _guard: DropGuard,
}

impl<T> Clone for SharedCall<T> {
    fn clone(&self) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedCall<T> {
    /// Creates a call that no metric counts.
    ///
    /// [`HealthBuilder::shared_call`](crate::HealthBuilder::shared_call) creates a counted one.
    pub fn new<F, Fut>(run_timeout: Duration, call: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        Self::counted(run_timeout, Counter::default(), call)
    }

    pub(crate) fn counted<F, Fut>(run_timeout: Duration, runs: Counter, call: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        let inner = SharedCallInner {
            flight: watch::Sender::new(SingleFlight::new()),
            call: Arc::new(move || call().boxed()),
            run_timeout,
            runs,
            _guard: cancel.clone().drop_guard(),
            cancel,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the result of a run that started at most `max_age` before this call, or of a new
    /// run.
    ///
    /// It waits for as long as that takes. Wrap it in a `timeout` to leave earlier. At most two
    /// runs are in progress at once, so while two runs hang that are too old it waits for one of
    /// them to end.
    pub async fn get(&self, max_age: Duration) -> Result<T, CallPanicked> {
        let mut flight = self.inner.flight.subscribe();
        loop {
            // A run that ends between here and `changed` is noticed there.
            flight.mark_unchanged();
            let run = match self.join_or_start(max_age) {
                Admission::Join(run) => run,
                Admission::Start(run) => {
                    self.start(run);
                    run
                }
                Admission::Full => {
                    // Another waiter may take the free slot first. Then there is a recent run to
                    // join. The channel cannot close, because `self` holds its sender.
                    let _ = flight.changed().await;
                    continue;
                }
            };
            let ended = |flight: &SingleFlight<_>| {
                flight.result_for(run).is_some() || !flight.is_running(run)
            };
            if let Ok(flight) = flight.wait_for(ended).await
                && let Some(finished) = flight.result_for(run)
            {
                return finished.value.clone();
            }
        }
    }

    /// Returns the latest result of any run, and its age. It never starts a run.
    pub fn last(&self) -> Option<(Result<T, CallPanicked>, Duration)> {
        let last: Option<FinishedRun<_>> = self.inner.flight.borrow().last().cloned();
        last.map(|last| (last.value, last.at.elapsed()))
    }

    /// Creates a check that judges the result of this call.
    ///
    /// The readyz deadline is a good `max_age`: a probe that starts a new run of the check then
    /// also gets a new run of the call.
    pub fn check<J>(&self, max_age: Duration, judge: J) -> SharedCallCheck<T, J>
    where
        J: Fn(&T) -> CheckResult + Send + Sync + 'static,
    {
        let call = self.clone();
        SharedCallCheck {
            call,
            max_age,
            judge,
        }
    }

    fn join_or_start(&self, max_age: Duration) -> Admission {
        let mut admission = Admission::Full;
        self.inner.flight.send_if_modified(|flight| {
            admission = flight.join_or_start(Instant::now(), max_age);
            // The waiters need not know that a run has started.
            false
        });
        admission
    }

    fn start(&self, run: RunId) {
        self.inner.runs.inc();
        let guard = RunGuard {
            run,
            inner: Arc::downgrade(&self.inner),
        };
        let call = Arc::clone(&self.inner.call);
        let run_timeout = self.inner.run_timeout;
        let cancel = self.inner.cancel.clone();
        tokio::spawn(async move {
            // The call is made inside, so that a panic before its first await is caught too.
            let calling = AssertUnwindSafe(async move { call().await }).catch_unwind();
            let ended = cancel
                .run_until_cancelled(timeout(run_timeout, calling))
                .await;
            if let Some(Ok(result)) = ended {
                guard.finish(result.map_err(|payload| CallPanicked::new(payload.as_ref())));
            }
        });
    }
}

/// Frees the slot of a run when dropped, however the run ended.
struct RunGuard<T> {
    run: RunId,
    /// Weak, because a run must not keep alive the handle whose drop cancels it.
    inner: Weak<SharedCallInner<T>>,
}

impl<T> RunGuard<T> {
    fn finish(&self, result: Result<T, CallPanicked>) {
        if let Some(inner) = self.inner.upgrade() {
            let finish =
                |flight: &mut SingleFlight<_>| flight.finish(self.run, Instant::now(), result);
            inner.flight.send_modify(finish);
        }
    }
}

impl<T> Drop for RunGuard<T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.flight.send_if_modified(|flight| {
                let was_running = flight.is_running(self.run);
                flight.abandon(self.run);
                was_running
            });
        }
    }
}

impl CallPanicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(FailureReason::from(text.unwrap_or_default()))
    }
}
