//! Errors of calls on targets.

use std::time::Duration;

use thiserror::Error;

/// The reason why a call on a target failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(
    missing_docs,
    reason = "verb, what and reason are the same in all variants"
)]
pub enum ActuatorError {
    /// The permission has to be granted.
    #[error("may not {verb} {what}: {reason}; grant get and patch on it and on its scale")]
    Denied {
        verb: &'static str,
        what: String,
        reason: String,
    },
    /// The API server rejected the request with HTTP 429.
    #[error("cannot {verb} {what}: the API server is throttling requests (429); retrying")]
    Throttled { verb: &'static str, what: String },
    /// The configuration has to name another kind.
    #[error(
        "cannot scale {what}: its kind has no scale subresource; configure a kind that has one"
    )]
    NotScalable { what: String },
    /// The configuration has to name another kind, or the kind has to be installed.
    #[error("cannot find {what}: the API server knows no kind {kind} in {api_version}")]
    UnknownKind {
        what: String,
        kind: String,
        api_version: String,
    },
    /// The object does not exist.
    #[error("cannot {verb} {what}: it does not exist")]
    NotFound { verb: &'static str, what: String },
    /// Another client has changed the object since it was read.
    #[error("cannot {verb} {what}: another client has changed it; reading it again")]
    Conflict { verb: &'static str, what: String },
    /// No response came within the limit. A write may have happened all the same.
    #[error("cannot {verb} {what}: no response within {limit:?}; is the API server overloaded?")]
    TimedOut {
        verb: &'static str,
        what: String,
        limit: Duration,
    },
    /// Any other failure. A retry may succeed.
    #[error("cannot {verb} {what}: {reason}; is the API server up?")]
    Unavailable {
        verb: &'static str,
        what: String,
        reason: String,
    },
}
