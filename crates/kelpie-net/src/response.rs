//! An answer, read as it comes.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body, Incoming};

use crate::exchange::Exchange;
use crate::request::RequestError;
use crate::stream::Stream;

/// The answer to a request: its head, and its body as it comes. Read it to the end, by
/// [`Response::collect`] or until [`Response::chunk`] gives `None`, and the connection can be used
/// again; drop it before, and the connection is of no more use.
#[derive(Debug)]
pub struct Response<'c> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// `None` at the end of the body.
    exchange: Option<Exchange>,
    /// Where the stream goes when it is free again.
    stream: &'c mut Option<Stream>,
}

impl<'c> Response<'c> {
    pub(crate) fn new(
        answer: http::Response<Incoming>,
        exchange: Exchange,
        stream: &'c mut Option<Stream>,
    ) -> Self {
        let (head, body) = answer.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            exchange: Some(exchange),
            stream,
        }
    }

    /// The next bytes of the body, `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            let frame = poll_fn(|cx| {
                if let Some(exchange) = &mut self.exchange {
                    exchange.drive(cx);
                }
                Pin::new(&mut self.body).poll_frame(cx)
            });
            match frame.await {
                // Trailers are no data.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(RequestError::from_hyper(&error)),
                None => {
                    if let Some(exchange) = self.exchange.take() {
                        *self.stream = exchange.end();
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The whole body, if it has at most `limit` bytes. A declared length beyond the limit is
    /// refused before a byte is read; without one the reading stops at the limit.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, RequestError> {
        self.check_length(limit)?;
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit - whole.len() {
                return Err(RequestError::BodyTooLarge { limit });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// An error if the answer declares more than `limit` bytes.
    pub fn check_length(&self, limit: usize) -> Result<(), RequestError> {
        // hyper has refused lengths that are no number, and several that differ.
        match self.body.size_hint().exact() {
            Some(length) if length > limit as u64 => Err(RequestError::BodyTooLarge { limit }),
            _ => Ok(()),
        }
    }

    /// A header's value, if it is there once and readable.
    pub fn header(&self, name: &header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
