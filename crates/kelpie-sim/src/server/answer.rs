//! Answers, before they are sent.

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use kelpie_core::Time;
use kelpie_net::{BrokenOff, ServedBody};
use serde_json::Value;

use crate::clock::http_date;
use crate::refusal::Refusal;

pub(super) const JSON: &str = "application/json";

/// A status, a content type and a body.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) content_type: &'static str,
    pub(super) retry_after: Option<u64>,
    pub(super) body: ServedBody,
}

impl Answer {
    /// JSON text.
    pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::of(code, JSON, text)
    }

    pub(super) fn json(code: u16, value: &Value) -> Self {
        Self::text(code, value.to_string())
    }

    pub(super) fn of(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            code,
            content_type,
            retry_after: None,
            body: ServedBody::whole(body),
        }
    }

    /// Pieces as they come.
    pub(super) fn stream<S>(content_type: &'static str, pieces: S) -> Self
    where
        S: Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static,
    {
        Self {
            code: 200,
            content_type,
            retry_after: None,
            body: ServedBody::pieces(pieces),
        }
    }

    pub(super) fn into_response(self, now: Time) -> Response<ServedBody> {
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

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let details = refusal.details.as_ref();
        let retry_after = details.and_then(|details| details.get("retryAfterSeconds")?.as_u64());
        Self {
            retry_after,
            ..Self::json(refusal.reason.code(), &refusal.status())
        }
    }
}
