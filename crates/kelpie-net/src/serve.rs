//! Answering the requests of one connection.

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

/// Bytes of a request's body: what an API server takes.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// The body of an answer, whole or as it comes. An error in it breaks the connection off.
#[derive(Debug)]
pub struct ServedBody(UnsyncBoxBody<Bytes, BrokenOff>);

impl ServedBody {
    /// All of it at once.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let body = Full::new(bytes.into()).map_err(|never| match never {});
        Self(body.boxed_unsync())
    }

    /// Piece by piece.
    pub fn pieces<P>(pieces: P) -> Self
    where
        P: Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static,
    {
        let frames = pieces.map(|piece| piece.map(Frame::data));
        Self(StreamBody::new(frames).boxed_unsync())
    }

    /// What is left of it, read to its end.
    pub async fn collect(self) -> Result<Bytes, BrokenOff> {
        Ok(self.0.collect().await?.to_bytes())
    }

    /// The next piece; `None` at its end.
    pub async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        let frame = self.0.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }
}

/// An answer that does not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is broken off")]
pub struct BrokenOff;

/// Answers the HTTP/1.1 requests of one connection, one after the other, until the client closes it. A
/// request that `answer` has nothing for ends the connection without a word. There is no time limit:
/// this is for clients that one trusts.
pub async fn serve_connection<S, H, A>(stream: S, answer: H) -> Result<(), RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Fn(Request<Bytes>) -> A,
    A: Future<Output = Option<Response<ServedBody>>>,
{
    let service = service_fn(|request: Request<Incoming>| {
        let answer = &answer;
        async move {
            let (head, body) = request.into_parts();
            let answered = match Limited::new(body, LARGEST_BODY).collect().await {
                Ok(body) => answer(Request::from_parts(head, body.to_bytes())).await,
                Err(_) => Some(too_large()),
            };
            answered
                .map(|response| response.map(|body| body.0))
                .ok_or(BrokenOff)
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    connection
        .await
        .map_err(|error| RequestError::from_hyper(&error))
}

fn too_large() -> Response<ServedBody> {
    let mut response = Response::new(ServedBody::whole("the request is larger than 3 MiB\n"));
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}
