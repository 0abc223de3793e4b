//! Serves the requests of one connection.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::request::RequestError;

/// Limits the body of a request. The API server has the same limit.
const MAX_REQUEST_BODY: usize = 3 * 1024 * 1024;

/// The body of a response, complete or streamed. An error in it aborts the connection.
#[derive(Debug)]
pub struct ResponseBody(UnsyncBoxBody<Bytes, BodyAborted>);

impl ResponseBody {
    /// Creates a body from bytes that are available at once.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let body = Full::new(bytes.into()).map_err(|never| match never {});
        Self(body.boxed_unsync())
    }

    /// Creates a body that is streamed in chunks.
    pub fn from_stream<P>(chunks: P) -> Self
    where
        P: Stream<Item = Result<Bytes, BodyAborted>> + Send + 'static,
    {
        let frames = chunks.map(|chunk| chunk.map(Frame::data));
        Self(StreamBody::new(frames).boxed_unsync())
    }

    /// Reads the rest of the body to its end.
    pub async fn collect(self) -> Result<Bytes, BodyAborted> {
        Ok(self.0.collect().await?.to_bytes())
    }

    /// Returns the next chunk, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyAborted>> {
        let frame = self.0.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }
}

/// The error of a response that ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response was aborted")]
pub struct BodyAborted;

/// Serves the HTTP/1.1 requests of one connection, one after the other, until the client closes it.
///
/// A request for which `handler` returns `None` aborts the connection without a response. There is
/// no time limit, so only trusted clients may be served this way.
pub async fn serve_connection<S, H, F>(stream: S, handler: H) -> Result<(), RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Option<Response<ResponseBody>>>,
{
    let service = service_fn(|request: Request<Incoming>| {
        let handler = &handler;
        async move {
            let (head, body) = request.into_parts();
            let response = match Limited::new(body, MAX_REQUEST_BODY).collect().await {
                Ok(body) => handler(Request::from_parts(head, body.to_bytes())).await,
                Err(_) => Some(too_large()),
            };
            response
                .map(|response| response.map(|body| body.0))
                .ok_or(BodyAborted)
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    Ok(connection.await?)
}

fn too_large() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full("the request is larger than 3 MiB\n"));
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}
