//! One request over one stream.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;

use crate::request::RequestError;
use crate::stream::{HyperStream, Stream};

/// Bytes of an answer's head, and of what is read at once. The head of an API server's answer has
/// half a kilobyte.
const LARGEST_BUFFER: usize = 8 * 1024;

/// Headers of an answer.
const MOST_HEADERS: usize = 100;

/// A request and its answer while they go over a stream that may be used again.
#[derive(Debug)]
pub(crate) struct Exchange {
    sender: http1::SendRequest<Full<Bytes>>,
    /// What moves bytes between the stream and hyper; `None` when the stream has ended.
    wire: Option<Box<Wire>>,
}

type Wire = http1::Connection<HyperStream, Full<Bytes>>;

impl Exchange {
    pub(crate) async fn over(stream: Stream) -> Result<Self, RequestError> {
        // No byte goes over the wire here; hyper only has the form of a handshake.
        let opened = http1::Builder::new()
            .read_buf_exact_size(Some(LARGEST_BUFFER))
            .max_headers(MOST_HEADERS)
            .handshake(stream.into_hyper())
            .await;
        let (sender, wire) = opened.map_err(|error| RequestError::from_hyper(&error))?;
        Ok(Self {
            sender,
            wire: Some(Box::new(wire)),
        })
    }

    /// Sends the request and waits for the head of its answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut sending = pin!(self.sender.send_request(request));
        let wire = &mut self.wire;
        let answer = poll_fn(|cx| {
            drive(wire, cx);
            sending.as_mut().poll(cx)
        });
        let answer = answer.await;
        answer.map_err(|error| RequestError::from_hyper(&error))
    }

    /// Moves on what can be moved.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.wire, cx);
    }

    /// After the end of the answer: the stream, if another request may follow.
    pub(crate) fn end(mut self) -> Option<Stream> {
        self.drive(&mut Context::from_waker(Waker::noop()));
        let is_reusable = self.sender.is_ready();
        let parts = self.wire.filter(|_| is_reusable)?.into_parts();
        // Nobody asked for more than the answer.
        parts.read_buf.is_empty().then(|| parts.io.into_inner())
    }
}

/// A fault is told to whoever waits for the answer, if anybody; one that comes when nobody waits is
/// the same as a stream that was closed.
fn drive(wire: &mut Option<Box<Wire>>, cx: &mut Context<'_>) {
    wire.take_if(|wire| pin!(wire).poll(cx).is_ready());
}

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
