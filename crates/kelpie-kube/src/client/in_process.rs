//! A transport to an API server in this process.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request, Response};
use kelpie_net::{Endpoint, send_request};
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::connect::{CONNECT_TIMEOUT, FENCING_READ_TIMEOUT};

/// Sends each request over its own stream. Within a process a stream costs next to nothing.
#[derive(Clone)]
pub(super) struct InProcess {
    pub(super) endpoint: Endpoint,
    pub(super) headers: HeaderMap,
}

impl InProcess {
    /// Creates a transport that sends `name` as the bearer token and as the user agent.
    pub(super) fn new(
        endpoint: Endpoint,
        name: &str,
    ) -> Result<Self, http::header::InvalidHeaderValue> {
        let bearer = format!("Bearer {name}");
        let headers = [
            (HOST, HeaderValue::from_str(&endpoint.authority())?),
            (AUTHORIZATION, HeaderValue::from_str(&bearer)?),
            (USER_AGENT, HeaderValue::from_str(name)?),
        ];
        Ok(Self {
            endpoint,
            headers: headers.into_iter().collect(),
        })
    }
}

impl Service<Request<Body>> for InProcess {
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
            // The same timeouts as those of the fencing client over TCP.
            let stream = timeout(CONNECT_TIMEOUT, kelpie_net::connect(&endpoint)).await??;
            Ok(timeout(FENCING_READ_TIMEOUT, send_request(stream, request)).await??)
        })
    }
}
