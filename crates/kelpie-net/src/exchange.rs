//! One request over one stream.

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;

use crate::request::RequestError;
use crate::stream::Stream;

/// Sends one request over a stream that is used for nothing else, and waits for the head of its
/// answer. The body comes as long as it is read, without a limit: for servers that are trusted.
pub async fn exchange<B>(
    stream: Stream,
    request: Request<B>,
) -> Result<Response<Incoming>, RequestError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let fault = |error: hyper::Error| RequestError::from_hyper(&error);
    let opened = http1::handshake(stream.into_hyper()).await;
    let (mut sender, wire) = opened.map_err(fault)?;
    // Ends with the stream, or when the answer is dropped.
    tokio::spawn(wire);
    sender.send_request(request).await.map_err(fault)
}
