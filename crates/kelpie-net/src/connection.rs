//! A single HTTP/1.1 connection.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};

use crate::connect::{ConnectError, connect};
use crate::endpoint::Endpoint;
use crate::exchange::Exchange;
use crate::request::{RequestError, target};
use crate::response::Response;
use crate::stream::Stream;

/// A single HTTP/1.1 connection without a background task, a pool or retries.
///
/// The owner decides how long to keep it; dropping it closes it. An idle connection is only a
/// stream. The buffers of HTTP, about 25 KB, exist from a request to the end of its response, and
/// 16 KB more while received bytes wait to be read.
///
/// The connection makes progress only while the caller polls a request or its response. Dropping
/// the future of [`HttpConnection::get`], or a [`Response`] before its end, makes the connection
/// unusable, because the next response on the wire would belong to another request.
#[derive(Debug)]
pub struct HttpConnection {
    /// `None` from a request to the end of its response, and after the connection has closed.
    stream: Option<Stream>,
    endpoint: Endpoint,
}

impl HttpConnection {
    /// Opens a new connection to the server.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        Ok(Self {
            stream: Some(connect(endpoint).await?),
            endpoint: endpoint.clone(),
        })
    }

    /// Returns true if another request can be sent: the last response was read to its end, and the
    /// peer is not known to have closed the connection.
    pub fn is_usable(&mut self) -> bool {
        self.stream.take_if(|stream| !stream.is_idle());
        self.stream.is_some()
    }

    /// Sends a GET request. `path` starts with a slash, may have a query, and is appended to the
    /// path of the endpoint.
    pub async fn get(
        &mut self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<'_>, RequestError> {
        self.send(Method::GET, path, headers, Bytes::new()).await
    }

    /// Sends a request and waits for the head of its response. Redirects are returned, not
    /// followed.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<'_>, RequestError> {
        let mut request = Request::new(body.into());
        *request.method_mut() = method;
        *request.uri_mut() = target(&self.endpoint, path)?;
        request.headers_mut().clone_from(headers);
        let host = self.endpoint.host_header.clone();
        request.headers_mut().insert(header::HOST, host);

        let stream = self.stream.take().ok_or(RequestError::Unusable)?;
        let mut exchange = Exchange::new(stream, self.endpoint.max_head_bytes).await?;
        let response = exchange.send(request).await?;
        Ok(Response::new(response, exchange, &mut self.stream))
    }
}
