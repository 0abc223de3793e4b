//! Errors of requests to a tenant's API server.

use std::time::Duration;

use kelpie_net::{ConnectError, RequestError};

use crate::lists::ListError;

/// An error of a request to a tenant's API server. It is either
/// [transient](TenantError::is_transient) or a failure of the API server.
#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    /// 429: the API server is overloaded.
    #[error("the API server throttles requests (429){}", retry_hint(.retry_after.as_ref()))]
    Throttled {
        /// The time in the `Retry-After` header, which may be arbitrarily long.
        retry_after: Option<Duration>,
    },
    /// 401 or 403: the credentials are not accepted, or lack a permission.
    #[error(
        "the API server refused the credentials of the kubeconfig ({status}): {}",
        denied_hint(*.status)
    )]
    Denied {
        /// The HTTP status, 401 or 403.
        status: u16,
    },
    /// 3xx: redirects are never followed.
    #[error(
        "the API server redirects ({status}), which is not followed; check the server's URL in the \
         kubeconfig"
    )]
    #[expect(missing_docs, reason = "the message shows the field")]
    Redirected { status: u16 },
    /// Any other status that is not a success.
    #[error("the API server responded with status {0}")]
    Status(u16),
    /// The connection cannot be opened.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The connection broke, or the response is not valid HTTP.
    #[error("the API server sent no response: {0}")]
    Broken(RequestError),
    /// There was no complete response before the deadline.
    #[error("the API server did not respond in time")]
    TimedOut,
    /// The response is too large, malformed or only a part of the list.
    #[error("{}", describe(.0))]
    Decode(#[from] ListError),
}

impl TenantError {
    /// Returns whether the error says nothing about the health of the API server: 429, 401 and 403.
    /// Such an error counts neither as a success nor as a failure; the last known state is kept.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::Denied { .. })
    }

    /// Returns the HTTP status, if the API server responded with an error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Throttled { .. } => Some(429),
            Self::Denied { status } | Self::Redirected { status } | Self::Status(status) => {
                Some(*status)
            }
            _ => None,
        }
    }

    /// Returns whether the connection failed. A failed connection of an earlier round proves
    /// nothing about the API server.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Broken(_) | Self::TimedOut)
    }

    /// Returns the error for an HTTP status. `None`: the status is a success.
    pub(crate) fn from_status(status: u16, retry_after: Option<&str>) -> Option<Self> {
        Some(match status {
            200..=299 => return None,
            429 => Self::Throttled {
                retry_after: retry_after.and_then(parse_seconds),
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
            RequestError::BodyTooLarge { limit } => Self::Decode(ListError::TooLarge {
                what: "its size in bytes",
                limit,
            }),
            other => Self::Broken(other),
        }
    }
}

fn describe(error: &ListError) -> String {
    match error {
        ListError::TooLarge { .. } => format!("the API server's response is too large: {error}"),
        ListError::Malformed(_) => format!("the API server's response cannot be decoded: {error}"),
        ListError::Partial => "the API server sent only a part of the list".to_owned(),
    }
}

/// Parses a `Retry-After` header in seconds. Kubernetes never sends a date.
fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: u32 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

fn retry_hint(retry_after: Option<&Duration>) -> String {
    let hint = |time: &Duration| format!("; retry after {} s", time.as_secs());
    retry_after.map_or_else(String::new, hint)
}

fn denied_hint(status: u16) -> &'static str {
    if status == 401 {
        "they are unknown or have expired"
    } else {
        "they lack the permission for this request"
    }
}
