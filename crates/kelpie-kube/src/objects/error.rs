//! Errors of requests for objects.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::client::ApiError;

/// A failed request for an object or a list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ObjectError {
    /// The cluster's name in messages, such as `hub`.
    pub role: &'static str,
    /// The attempted operation, as an infinitive such as `read`.
    pub verb: &'static str,
    /// The object or objects, as [`ObjectPath`](super::ObjectPath) displays them.
    pub what: String,
    /// The reason, by remedy.
    pub cause: ApiError,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, what, cause) = (self.verb, &self.what, &self.cause);
        write!(f, "cannot {verb} {what} on the {}: ", self.role)?;
        match cause {
            ApiError::Unauthorized(_) | ApiError::Tls(_) => {
                write!(f, "{cause}; {}", cause.remedy())
            }
            ApiError::Forbidden(reason) => write!(f, "not allowed: {reason}"),
            ApiError::NotFound => write!(f, "{cause}"),
            ApiError::Conflict => f.write_str("another client has changed it"),
            ApiError::Throttled(_) => f.write_str("the API server throttles requests"),
            ApiError::Invalid { reason, .. } => {
                write!(f, "the API server rejected it as invalid: {reason}")
            }
            ApiError::Expired
            | ApiError::Webhook(_)
            | ApiError::TimedOut
            | ApiError::Unavailable(_) => {
                write!(f, "{cause}; check the API server and the connection to it")
            }
        }
    }
}

/// The field of Kubernetes' `Status` that is used.
#[derive(Deserialize)]
struct StatusMessage {
    message: String,
}

/// Classifies an error response. `retry_after` is in seconds.
pub(super) fn from_response(status: u16, retry_after: Option<u64>, body: &[u8]) -> ApiError {
    let error = match serde_json::from_slice::<StatusMessage>(body) {
        Ok(found) => ApiError::from_status(status, &found.message),
        Err(_) => ApiError::from_status(status, String::from_utf8_lossy(body).trim()),
    };
    match error {
        ApiError::Throttled(_) => ApiError::Throttled(retry_after.map(Duration::from_secs)),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_maps_to_a_cause() {
        let body = br#"{"kind": "Status", "message": "why"}"#;
        let message = || "why".to_owned();
        let invalid = |status| ApiError::Invalid {
            status,
            reason: message(),
        };
        for (status, cause) in [
            (401, ApiError::Unauthorized(message())),
            (403, ApiError::Forbidden(message())),
            (404, ApiError::NotFound),
            (409, ApiError::Conflict),
            (422, invalid(422)),
            (400, invalid(400)),
            (503, ApiError::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(from_response(status, None, body), cause);
        }
        let throttled = from_response(429, Some(7), b"too many");
        assert_eq!(throttled, ApiError::Throttled(Some(Duration::from_secs(7))));
    }

    #[test]
    fn message_names_operation_object_and_cause() {
        let error = ObjectError {
            role: "hub",
            verb: "read",
            what: "Secret a in namespace b".into(),
            cause: ApiError::NotFound,
        };
        assert_eq!(
            error.to_string(),
            "cannot read Secret a in namespace b on the hub: not found"
        );
    }
}
