//! Errors of calls on targets.

use std::time::Duration;

use thiserror::Error;

use crate::client::ApiError;

/// The reason why a call on a target failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ActuatorError {
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
    /// The request failed. `limit` was the time for its response, and `grant` are the permissions
    /// that it needs.
    #[error("{}", describe(verb, what, *limit, grant, cause))]
    Request {
        verb: &'static str,
        what: String,
        limit: Duration,
        grant: &'static str,
        cause: ApiError,
    },
}

impl ActuatorError {
    /// Returns why the request failed, if it was sent.
    pub fn cause(&self) -> Option<&ApiError> {
        match self {
            Self::Request { cause, .. } => Some(cause),
            Self::NotScalable { .. } | Self::UnknownKind { .. } => None,
        }
    }

    /// Returns whether the call certainly changed nothing: the API server rejected it.
    pub fn is_rejection(&self) -> bool {
        !matches!(
            self.cause(),
            Some(ApiError::TimedOut | ApiError::Tls(_) | ApiError::Unavailable(_))
        )
    }

    /// Returns whether an admission webhook did not answer.
    pub fn is_webhook_failure(&self) -> bool {
        matches!(self.cause(), Some(ApiError::Webhook(_)))
    }

    /// Returns whether the API server is overloaded: it throttles, or does not answer in time.
    pub fn is_overload(&self) -> bool {
        matches!(
            self.cause(),
            Some(ApiError::Throttled(_) | ApiError::TimedOut)
        )
    }
}

fn describe(verb: &str, what: &str, limit: Duration, grant: &str, cause: &ApiError) -> String {
    let reason = match cause {
        ApiError::Forbidden(reason) => {
            return format!("may not {verb} {what}: {reason}; grant {grant}");
        }
        ApiError::Unauthorized(_) | ApiError::Tls(_) => &format!("{cause}; {}", cause.remedy()),
        ApiError::Throttled(_) => "the API server is throttling requests (429); retrying",
        ApiError::Webhook(reason) => reason,
        ApiError::NotFound => "it does not exist",
        ApiError::Conflict => "another client has changed it; reading it again",
        ApiError::TimedOut => {
            &format!("no response within {limit:?}; is the API server overloaded?")
        }
        cause => &format!("{cause}; is the API server up?"),
    };
    format!("cannot {verb} {what}: {reason}")
}
