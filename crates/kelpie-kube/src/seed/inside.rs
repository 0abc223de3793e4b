//! A seed that lives in this process.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request, Response};
use kelpie_net::{Endpoint, exchange};
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::connect::{CONNECT, FENCING_READ};

/// Each request over a stream of its own: inside a process they cost nothing.
#[derive(Clone)]
pub(super) struct Inside {
    pub(super) endpoint: Endpoint,
    pub(super) headers: HeaderMap,
}

impl Inside {
    /// Introduces us by `name`.
    pub(super) fn new(
        endpoint: Endpoint,
        name: &str,
    ) -> Result<Self, http::header::InvalidHeaderValue> {
        let headers = [
            (HOST, HeaderValue::from_str(&endpoint.authority())?),
            (
                AUTHORIZATION,
                HeaderValue::from_str(&format!("Bearer {name}"))?,
            ),
            (USER_AGENT, HeaderValue::from_str(name)?),
        ];
        Ok(Self {
            endpoint,
            headers: headers.into_iter().collect(),
        })
    }
}

impl Service<Request<Body>> for Inside {
    type Response = Response<kelpie_net::Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let endpoint = self.endpoint.clone();
        Box::pin(async move {
            // As patient as the other client is.
            let stream = timeout(CONNECT, kelpie_net::connect(&endpoint)).await??;
            Ok(timeout(FENCING_READ, exchange(stream, request)).await??)
        })
    }
}
