//! Sends one request over a stream.

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

/// Limits the number of headers: one for so many bytes of the head's limit.
const BYTES_PER_HEADER: usize = 80;

/// A request and its response, in progress on a stream that can be reused afterwards.
#[derive(Debug)]
pub(crate) struct Exchange {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Moves bytes between the stream and hyper. `None` after the stream has ended.
    connection: Option<Box<HyperConnection>>,
}

type HyperConnection = http1::Connection<HyperStream, Full<Bytes>>;

impl Exchange {
    /// Starts an exchange. `max_head_bytes` limits the head of the response, and is the size of the
    /// read buffer.
    pub(crate) async fn new(stream: Stream, max_head_bytes: usize) -> Result<Self, RequestError> {
        // hyper calls this a handshake, but no byte is sent.
        let opened = http1::Builder::new()
            .read_buf_exact_size(Some(max_head_bytes))
            .max_headers(max_head_bytes / BYTES_PER_HEADER)
            .handshake(stream.into_hyper())
            .await;
        let (sender, connection) = opened?;
        Ok(Self {
            sender,
            connection: Some(Box::new(connection)),
        })
    }

    /// Sends the request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut sending = pin!(self.sender.send_request(request));
        let connection = &mut self.connection;
        let response = poll_fn(|cx| {
            drive(connection, cx);
            sending.as_mut().poll(cx)
        });
        Ok(response.await?)
    }

    /// Makes as much progress as possible without blocking.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }

    /// Ends the exchange after the end of the response. Returns the stream if it can be reused.
    pub(crate) fn end(mut self) -> Option<Stream> {
        self.drive(&mut Context::from_waker(Waker::noop()));
        let is_reusable = self.sender.is_ready();
        let parts = self.connection.filter(|_| is_reusable)?.into_parts();
        // Extra bytes after the response make the stream unusable.
        parts.read_buf.is_empty().then(|| parts.io.into_inner())
    }
}

/// An error is reported to the task that waits for the response. Without such a task, an error is
/// equivalent to a closed stream.
fn drive(connection: &mut Option<Box<HyperConnection>>, cx: &mut Context<'_>) {
    connection.take_if(|connection| pin!(connection).poll(cx).is_ready());
}

/// Sends one request over a stream that is used for nothing else, and waits for the head of its
/// response. The body is streamed without a limit, so only trusted servers may be called this way.
pub async fn send_request<B>(
    stream: Stream,
    request: Request<B>,
) -> Result<Response<Incoming>, RequestError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut sender, connection) = http1::handshake(stream.into_hyper()).await?;
    // The task ends with the stream, or when the response is dropped.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}
