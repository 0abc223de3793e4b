//! Why a tenant's API server gave no answer that can be used.

use std::time::Duration;

use kelpie_net::{ConnectError, RequestError};

use crate::wire::WireError;

/// Why a question to a tenant's API server has no answer. What the server said of itself is
/// [transient](TenantError::is_transient) or a failure; the rest is a failure.
#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    /// 429: the server has too much to do.
    #[error("the API server asks to come back later (429){}", wait(.retry_after.as_ref()))]
    Throttled {
        /// What it says how long that is; not yet clamped.
        retry_after: Option<Duration>,
    },
    /// 401 or 403: these credentials are not accepted, or may not do this.
    #[error(
        "the API server refused the credentials of the kubeconfig ({status}): {}",
        refusal(*.status)
    )]
    Denied {
        /// 401 or 403.
        status: u16,
    },
    /// 3xx: redirects are never followed.
    #[error(
        "the API server redirects ({status}), which is not followed: is the server's URL right?"
    )]
    Redirected {
        /// The status.
        status: u16,
    },
    /// Any other status that is no success.
    #[error("the API server answered {0}")]
    Status(u16),
    /// No connection.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The connection broke, or what came over it is no HTTP.
    #[error("the API server gave no answer: {0}")]
    Broken(RequestError),
    /// No whole answer in time.
    #[error("the API server did not answer in time")]
    TimedOut,
    /// More than is accepted.
    #[error("the API server's answer is too large: {what} is more than {limit}")]
    TooLarge {
        /// Of what there is too much, with its unit.
        what: &'static str,
        /// How much is accepted.
        limit: usize,
    },
    /// Not what was asked for.
    #[error("the API server's answer cannot be read: {0}")]
    Malformed(String),
    /// A part of the list only, on which nothing can be judged.
    #[error("the API server gave only a part of the list")]
    Partial,
}

impl TenantError {
    /// 429, 401 and 403: counts stay as they are, the last known state is kept. Anything else is a
    /// failure.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::Denied { .. })
    }

    /// The status, where the server gave one that is no success.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Throttled { .. } => Some(429),
            Self::Denied { status } | Self::Redirected { status } | Self::Status(status) => {
                Some(*status)
            }
            _ => None,
        }
    }

    /// Whether it is the connection's fault: on a kept one, that proves nothing about the server.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Broken(_) | Self::TimedOut)
    }

    /// What an answer of this status means; `None` for a success.
    pub(crate) fn from_status(status: u16, retry_after: Option<&str>) -> Option<Self> {
        Some(match status {
            200..=299 => return None,
            429 => Self::Throttled {
                retry_after: retry_after.and_then(seconds),
            },
            401 | 403 => Self::Denied { status },
            300..=399 => Self::Redirected { status },
            _ => Self::Status(status),
        })
    }
}

impl From<RequestError> for TenantError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::BodyTooLarge { limit } => Self::TooLarge {
                what: "its size in bytes",
                limit,
            },
            other => Self::Broken(other),
        }
    }
}

impl From<WireError> for TenantError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::TooLarge { what, limit } => Self::TooLarge { what, limit },
            WireError::Malformed(text) => Self::Malformed(text),
            WireError::Partial => Self::Partial,
        }
    }
}

/// `Retry-After` in seconds; Kubernetes never sends a date.
fn seconds(written: &str) -> Option<Duration> {
    let seconds: u32 = written.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

fn wait(retry_after: Option<&Duration>) -> String {
    retry_after.map_or_else(String::new, |time| format!(", in {} s", time.as_secs()))
}

fn refusal(status: u16) -> &'static str {
    if status == 401 {
        "they are unknown or have expired"
    } else {
        "they lack the right to do this"
    }
}
