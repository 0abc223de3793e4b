//! Responses.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, Response, StatusCode, header};
use kelpie_core::Time;
use kelpie_net::{BodyAborted, ResponseBody};
use serde_json::Value;

use crate::clock::http_date;
use crate::status_error::StatusError;

pub(super) const JSON: &str = "application/json";

/// A status code, a content type and a body.
pub(super) struct ServerResponse {
    pub(super) code: u16,
    pub(super) content_type: &'static str,
    pub(super) retry_after: Option<u64>,
    pub(super) body: ResponseBody,
}

impl ServerResponse {
    /// Creates a response from JSON text.
    pub(super) fn json_text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::new(code, JSON, text)
    }

    pub(super) fn json(code: u16, value: &Value) -> Self {
        Self::json_text(code, value.to_string())
    }

    pub(super) fn new(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            code,
            content_type,
            retry_after: None,
            body: ResponseBody::full(body),
        }
    }

    /// Creates a response that is streamed.
    pub(super) fn stream<S>(content_type: &'static str, chunks: S) -> Self
    where
        S: Stream<Item = Result<Bytes, BodyAborted>> + Send + 'static,
    {
        Self {
            code: 200,
            content_type,
            retry_after: None,
            body: ResponseBody::from_stream(chunks),
        }
    }

    /// Ends the body in its middle: with an error that resets the connection, or never.
    pub(super) async fn cut_midway(mut self, resets: bool) -> Self {
        let whole = self.body.collect().await.unwrap_or_default();
        let half = stream::iter([Ok(whole.slice(..whole.len() / 2))]);
        self.body = if resets {
            ResponseBody::from_stream(half.chain(stream::iter([Err(BodyAborted)])))
        } else {
            ResponseBody::from_stream(half.chain(stream::pending()))
        };
        self
    }

    pub(super) fn into_response(self, now: Time) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or_default();
        let headers = response.headers_mut();
        let fixed = [
            (header::CONTENT_TYPE, self.content_type),
            (header::CACHE_CONTROL, "no-cache, private"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if let Ok(date) = HeaderValue::try_from(http_date(now)) {
            headers.insert(header::DATE, date);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<StatusError> for ServerResponse {
    fn from(error: StatusError) -> Self {
        let details = error.details.as_ref();
        let retry_after = details.and_then(|details| details.get("retryAfterSeconds")?.as_u64());
        Self {
            retry_after,
            ..Self::json(error.reason.code(), &error.to_status())
        }
    }
}
