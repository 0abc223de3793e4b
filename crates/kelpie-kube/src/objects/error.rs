//! Errors of requests for objects.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::client::shortened;

/// A failed request for an object or a list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {verb} {what} on the {role}: {cause}")]
pub struct ObjectError {
    /// The cluster's name in messages, such as `hub`.
    pub role: &'static str,
    /// The attempted operation, as an infinitive such as `read`.
    pub verb: &'static str,
    /// The object or objects, as [`ObjectPath`](super::ObjectPath) displays them.
    pub what: String,
    /// The reason, by remedy.
    pub cause: ObjectErrorKind,
}

/// The cause of an [`ObjectError`], by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectErrorKind {
    /// 401: the credentials are invalid or have expired.
    #[error("the credentials were rejected: {0}; renew them")]
    Unauthorized(String),
    /// 403: a permission is missing.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// 404: the object, its namespace or its kind does not exist.
    #[error("not found")]
    NotFound,
    /// 409: another client has changed the object. Read it again.
    #[error("another client has changed it")]
    Conflict,
    /// 429: the API server is overloaded. Try again after this time.
    #[error("the API server throttles requests")]
    Throttled(Option<Duration>),
    /// 400, 422 and other 4xx: the same request will never be accepted.
    #[error("the API server rejected it as invalid: {0}")]
    Invalid(String),
    /// Any other failure. A later attempt may succeed.
    #[error("{0}; check the API server and the connection to it")]
    Unavailable(String),
}

/// The field of Kubernetes' `Status` that is used.
#[derive(Deserialize)]
struct StatusMessage {
    message: String,
}

impl ObjectErrorKind {
    /// Classifies an error response. `retry_after` is in seconds.
    pub(super) fn from_response(status: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let message = match serde_json::from_slice::<StatusMessage>(body) {
            Ok(status) => shortened(&status.message),
            Err(_) => shortened(String::from_utf8_lossy(body).trim()),
        };
        match status {
            401 => Self::Unauthorized(message),
            403 => Self::Forbidden(message),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::Throttled(retry_after.map(Duration::from_secs)),
            400..500 => Self::Invalid(message),
            _ => Self::Unavailable(format!("status {status}: {message}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_maps_to_a_cause() {
        let body = br#"{"kind": "Status", "message": "why"}"#;
        let message = || "why".to_owned();
        for (status, cause) in [
            (401, ObjectErrorKind::Unauthorized(message())),
            (403, ObjectErrorKind::Forbidden(message())),
            (404, ObjectErrorKind::NotFound),
            (409, ObjectErrorKind::Conflict),
            (422, ObjectErrorKind::Invalid(message())),
            (400, ObjectErrorKind::Invalid(message())),
            (503, ObjectErrorKind::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(ObjectErrorKind::from_response(status, None, body), cause);
        }
        let throttled = ObjectErrorKind::from_response(429, Some(7), b"too many");
        assert_eq!(
            throttled,
            ObjectErrorKind::Throttled(Some(Duration::from_secs(7)))
        );
    }

    #[test]
    fn message_names_operation_object_and_cause() {
        let error = ObjectError {
            role: "hub",
            verb: "read",
            what: "Secret a in namespace b".into(),
            cause: ObjectErrorKind::NotFound,
        };
        assert_eq!(
            error.to_string(),
            "cannot read Secret a in namespace b on the hub: not found"
        );
    }
}
