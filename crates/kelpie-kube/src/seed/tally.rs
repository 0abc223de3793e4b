//! Counting answers, for the metrics.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use tower::{Layer, Service};

/// Answers by HTTP status, over all clients that share it. 0 is a request that got none.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Mutex<BTreeMap<u16, u64>>>);

impl Tally {
    pub(super) fn read(&self) -> BTreeMap<u16, u64> {
        self.lock().clone()
    }

    fn count(&self, status: u16) {
        *self.lock().entry(status).or_default() += 1;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Tally {
    type Service = Tallied<S>;

    fn layer(&self, inner: S) -> Tallied<S> {
        Tallied {
            inner,
            tally: self.clone(),
        }
    }
}

/// A service whose answers are counted.
#[derive(Debug)]
pub(super) struct Tallied<S> {
    inner: S,
    tally: Tally,
}

impl<S, R, B> Service<R> for Tallied<S>
where
    S: Service<R, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let call = self.inner.call(request);
        let mut count = Count {
            status: 0,
            tally: self.tally.clone(),
        };
        Box::pin(async move {
            let answer = call.await;
            if let Ok(answer) = &answer {
                count.answered(answer.status());
            }
            answer
        })
    }
}

/// Counts when it goes: also a request that is given up before it is answered.
struct Count {
    status: u16,
    tally: Tally,
}

impl Count {
    fn answered(&mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.tally.count(self.status);
    }
}
