//! Counts responses, for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Response;
use parking_lot::Mutex;
use tower::util::MapFutureLayer;

/// Counts responses by HTTP status, over all clients that share it. Status 0 counts requests
/// without a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseCounter(Arc<Mutex<BTreeMap<u16, u64>>>);

impl ResponseCounter {
    pub(super) fn read(&self) -> BTreeMap<u16, u64> {
        self.0.lock().clone()
    }

    /// Returns a layer that counts the responses of a service.
    pub(super) fn layer<F, B, E>(
        &self,
    ) -> MapFutureLayer<
        impl FnMut(F) -> BoxFuture<'static, Result<Response<B>, E>> + Clone + use<F, B, E>,
    >
    where
        F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    {
        let counter = self.clone();
        MapFutureLayer::new(move |call: F| {
            let mut count = CountOnDrop {
                status: 0,
                counter: counter.clone(),
            };
            async move {
                let response = call.await;
                if let Ok(response) = &response {
                    count.set_status(response.status().as_u16());
                }
                response
            }
            .boxed()
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
