//! Why a call did not get what it asked for.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::seed::shortened;

/// A call that failed: what was tried, on what, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {verb} {what} on the {role}: {cause}")]
pub struct CallError {
    /// What the cluster is to us.
    pub role: &'static str,
    /// What was tried.
    pub verb: &'static str,
    /// The object.
    pub what: String,
    /// Why it failed.
    pub cause: Cause,
}

/// Causes, by what can be done about them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// 401: other credentials are needed.
    #[error("the credentials are not accepted: {0}; are they still valid?")]
    Unauthorized(String),
    /// 403: somebody has to grant the permission.
    #[error("it is not allowed: {0}")]
    Forbidden(String),
    /// 404: the object, its namespace or its whole kind.
    #[error("not found")]
    NotFound,
    /// 409: to be read again.
    #[error("somebody else has changed it")]
    Conflict,
    /// 429: to be asked again, but not earlier than this.
    #[error("the API server has too many requests")]
    Throttled(Option<Duration>),
    /// 400, 422: the same request will never be accepted.
    #[error("the API server does not take it: {0}")]
    Invalid(String),
    /// Anything else: later it may work.
    #[error("{0}; is the API server up?")]
    Unavailable(String),
}

#[derive(Deserialize)]
struct Status {
    message: String,
}

impl Cause {
    pub(super) fn of(status: u16, after: Option<u64>, body: &[u8]) -> Self {
        let said = match serde_json::from_slice::<Status>(body) {
            Ok(status) => shortened(&status.message),
            Err(_) => shortened(String::from_utf8_lossy(body).trim()),
        };
        match status {
            401 => Self::Unauthorized(said),
            403 => Self::Forbidden(said),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::Throttled(after.map(Duration::from_secs)),
            400..500 => Self::Invalid(said),
            _ => Self::Unavailable(format!("status {status}: {said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_sorted_by_what_can_be_done_about_it() {
        let body = br#"{"kind": "Status", "message": "why"}"#;
        let why = || "why".to_owned();
        for (status, cause) in [
            (401, Cause::Unauthorized(why())),
            (403, Cause::Forbidden(why())),
            (404, Cause::NotFound),
            (409, Cause::Conflict),
            (422, Cause::Invalid(why())),
            (400, Cause::Invalid(why())),
            (503, Cause::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(Cause::of(status, None, body), cause);
        }
        let plain = Cause::of(429, Some(7), b"too many");
        assert_eq!(plain, Cause::Throttled(Some(Duration::from_secs(7))));
    }

    #[test]
    fn a_failure_says_what_where_and_why() {
        let error = CallError {
            role: "hub",
            verb: "read",
            what: "Secret a in namespace b".into(),
            cause: Cause::NotFound,
        };
        assert_eq!(
            error.to_string(),
            "cannot read Secret a in namespace b on the hub: not found"
        );
    }
}
