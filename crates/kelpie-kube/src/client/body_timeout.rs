//! A limit on the silence of the API server within a response.

use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::{Request, Response};
use tower::{Layer, Service};
use tower_http::timeout::TimeoutBody;

/// A response that has begun goes on within this time, or its connection is dead. Without the
/// limit, a list that stops midway would keep its watch from listing again.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Ends a response whose body stops midway. A watch may be silent for longer than other requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTimeoutLayer {
    pub(super) watch: Duration,
}

impl<S> Layer<S> for BodyTimeoutLayer {
    type Service = BodyTimeout<S>;

    fn layer(&self, inner: S) -> BodyTimeout<S> {
        let watch = self.watch;
        BodyTimeout { inner, watch }
    }
}

/// A service whose responses end when their body stops midway.
#[derive(Clone, Debug)]
pub(super) struct BodyTimeout<S> {
    inner: S,
    watch: Duration,
}

impl<S, Q, B> Service<Request<Q>> for BodyTimeout<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let timeout = if is_watch(&request) {
            self.watch
        } else {
            TIMEOUT
        };
        let response = self.inner.call(request);
        response
            .map_ok(move |response| response.map(|body| TimeoutBody::new(timeout, body)))
            .boxed()
    }
}

fn is_watch<Q>(request: &Request<Q>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}
