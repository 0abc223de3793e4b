//! One HTTP/1.1 connection.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};

use crate::connect::{ConnectError, connect};
use crate::endpoint::Endpoint;
use crate::exchange::Exchange;
use crate::request::{RequestError, target};
use crate::response::Response;
use crate::stream::Stream;

/// One HTTP/1.1 connection and nothing behind it: no task, no pool, no retry. Its owner decides how
/// long it is kept; dropping it closes it. While it is kept it is a stream and nothing else: what
/// HTTP needs, some 25 kilobytes, is there from a request to the end of its answer, and 16 more while
/// bytes that came wait to be read.
///
/// It is moved on by whoever waits for an answer. A future of [`Connection::get`] that is dropped, and
/// a [`Response`] that is not read to its end, leave it unusable: the next answer on the wire would
/// be another request's.
#[derive(Debug)]
pub struct Connection {
    /// `None` from a request to the end of its answer, and when the connection has ended.
    stream: Option<Stream>,
    endpoint: Endpoint,
}

impl Connection {
    /// A new connection to the server.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        Ok(Self {
            stream: Some(connect(endpoint).await?),
            endpoint: endpoint.clone(),
        })
    }

    /// Whether another request may be sent: the last answer was read, and the peer has not closed
    /// the connection as far as is known here.
    pub fn is_usable(&mut self) -> bool {
        self.stream.take_if(|stream| !stream.is_quiet());
        self.stream.is_some()
    }

    /// GET. `path` starts with a slash and may have a query; it is put below the endpoint's path.
    pub async fn get(
        &mut self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<'_>, RequestError> {
        self.send(Method::GET, path, headers, Bytes::new()).await
    }

    /// Sends a request and waits for the head of its answer. Redirects are answers like others.
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
        let host: HeaderValue = self.endpoint.host_header().clone();
        request.headers_mut().insert(header::HOST, host);

        let stream = self.stream.take().ok_or(RequestError::Unusable)?;
        let mut exchange = Exchange::over(stream).await?;
        let answer = exchange.send(request).await?;
        Ok(Response::new(answer, exchange, &mut self.stream))
    }
}
