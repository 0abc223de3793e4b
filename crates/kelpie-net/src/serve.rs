//! Answering the requests of one connection.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::request::RequestError;

/// Bytes of a request's body: what an API server takes.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// The body of an answer, whole or as it comes. An error in it breaks the connection off.
pub type ServedBody = UnsyncBoxBody<Bytes, BrokenOff>;

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
            match Limited::new(body, LARGEST_BODY).collect().await {
                Ok(body) => answer(Request::from_parts(head, body.to_bytes()))
                    .await
                    .ok_or(BrokenOff),
                Err(_) => Ok(too_large()),
            }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    connection
        .await
        .map_err(|error| RequestError::from_hyper(&error))
}

fn too_large() -> Response<ServedBody> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}
