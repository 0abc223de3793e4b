//! A response, read as it arrives.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body, Incoming};

use crate::exchange::Exchange;
use crate::request::RequestError;
use crate::stream::Stream;

/// The response to a request: the head, and a body that is read as it arrives.
///
/// Read it to the end with [`Response::collect`], or with [`Response::chunk`] until that returns
/// `None`, to use the connection again. Dropping it earlier makes the connection unusable.
#[derive(Debug)]
pub struct Response<'c> {
    /// The status code, which may be an error or a redirect.
    pub status: StatusCode,
    /// All headers of the response.
    pub headers: HeaderMap,
    body: Incoming,
    /// `None` after the end of the body.
    exchange: Option<Exchange>,
    /// Receives the stream when it can be reused.
    stream: &'c mut Option<Stream>,
}

impl<'c> Response<'c> {
    pub(crate) fn new(
        response: http::Response<Incoming>,
        exchange: Exchange,
        stream: &'c mut Option<Stream>,
    ) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            exchange: Some(exchange),
            stream,
        }
    }

    /// Returns the next bytes of the body, or `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            let frame = poll_fn(|cx| {
                if let Some(exchange) = &mut self.exchange {
                    exchange.drive(cx);
                }
                Pin::new(&mut self.body).poll_frame(cx)
            });
            match frame.await {
                // Trailers are skipped.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(error.into()),
                None => {
                    if let Some(exchange) = self.exchange.take() {
                        *self.stream = exchange.end();
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Reads the whole body if it has at most `limit` bytes. A declared length above the limit is
    /// rejected before any byte is read. Without a declared length, reading stops at the limit.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, RequestError> {
        self.check_length(limit)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit - body.len() {
                return Err(RequestError::BodyTooLarge { limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Appends the body to `start` until that has `limit` bytes. Bytes that were received are in
    /// `start` also after an error, and after the future was dropped.
    pub async fn read_start(
        &mut self,
        start: &mut BytesMut,
        limit: usize,
    ) -> Result<(), RequestError> {
        while start.len() < limit {
            let Some(chunk) = self.chunk().await? else {
                break;
            };
            start.extend_from_slice(&chunk[..chunk.len().min(limit - start.len())]);
        }
        Ok(())
    }

    /// Returns an error if the response declares more than `limit` bytes.
    pub fn check_length(&self, limit: usize) -> Result<(), RequestError> {
        // hyper rejects lengths that are not numbers, and several lengths that differ.
        match self.body.size_hint().exact() {
            Some(length) if length > limit as u64 => Err(RequestError::BodyTooLarge { limit }),
            _ => Ok(()),
        }
    }

    /// Returns the first value of a header if it is valid text.
    pub fn header(&self, name: &header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
