//! Counts responses, for the metrics.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Response;
use parking_lot::Mutex;
use tower::{Layer, Service};

/// A layer that counts responses by HTTP status, over all clients that share it. Status 0 counts
/// requests without a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseCounter(Arc<Mutex<BTreeMap<u16, u64>>>);

impl ResponseCounter {
    pub(super) fn read(&self) -> BTreeMap<u16, u64> {
        self.0.lock().clone()
    }
}

impl<S> Layer<S> for ResponseCounter {
    type Service = CountedService<S>;

    fn layer(&self, inner: S) -> CountedService<S> {
        CountedService {
            inner,
            counter: self.clone(),
        }
    }
}

/// A service whose responses are counted.
#[derive(Debug)]
pub(super) struct CountedService<S> {
    inner: S,
    counter: ResponseCounter,
}

impl<S, R, B> Service<R> for CountedService<S>
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
        let mut count = CountOnDrop {
            status: 0,
            counter: self.counter.clone(),
        };
        Box::pin(async move {
            let response = call.await;
            if let Ok(response) = &response {
                count.set_status(response.status().as_u16());
            }
            response
        })
    }
}

/// Counts a request when it is dropped, so that cancelled requests are counted too.
struct CountOnDrop {
    status: u16,
    counter: ResponseCounter,
}

impl CountOnDrop {
    /// Sets the status. An assignment to the field would move only the field into the future.
    fn set_status(&mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for CountOnDrop {
    fn drop(&mut self) {
        *self.counter.0.lock().entry(self.status).or_default() += 1;
    }
}
