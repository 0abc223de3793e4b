//! Errors of requests to a tenant's API server.

use std::io;
use std::time::Duration;

use kelpie_net::{ConnectError, RequestError, ResolveError, TlsFault};

use crate::lists::ListError;

/// An error of a request to a tenant's API server. [`TenantError::failure`] tells what it says
/// about the API server.
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
    /// The server ended the connection before it sent a response.
    #[error("the API server sent no response: {0}")]
    NoResponse(RequestError),
    /// The response is not valid HTTP, or the connection broke within it.
    #[error("the API server's response is broken: {0}")]
    Broken(RequestError),
    /// There was no complete response before the deadline.
    #[error("the API server did not respond in time")]
    TimedOut,
    /// The response is too large, malformed or only a part of the list.
    #[error("{}", describe(.0))]
    Decode(#[from] ListError),
}

impl TenantError {
    /// Returns what the error says about the API server.
    pub fn failure(&self) -> FailureKind {
        match self {
            Self::Throttled { .. } => FailureKind::Transient,
            _ if self.is_denied() => FailureKind::Transient,
            Self::Connect(error) => connect_failure(error),
            Self::NoResponse(RequestError::Broken(_)) => FailureKind::Down,
            Self::NoResponse(_)
            | Self::Denied { .. }
            | Self::Redirected { .. }
            | Self::Status(_)
            | Self::Broken(_)
            | Self::TimedOut
            | Self::Decode(_) => FailureKind::Unclear,
        }
    }

    /// Returns whether the error says nothing about the health of the API server. Such an error
    /// counts neither as a success nor as a failure; the last known state is kept.
    pub fn is_transient(&self) -> bool {
        self.failure() == FailureKind::Transient
    }

    /// Returns whether the credentials were refused: 401 and 403, and a client certificate that TLS
    /// rejects. New credentials may help.
    pub fn is_denied(&self) -> bool {
        matches!(
            self,
            Self::Denied { .. }
                | Self::Connect(ConnectError::Tls {
                    fault: TlsFault::ClientCertRejected(_),
                    ..
                })
                | Self::NoResponse(RequestError::Tls(TlsFault::ClientCertRejected(_)))
        )
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
        matches!(
            self,
            Self::Connect(_) | Self::NoResponse(_) | Self::Broken(_) | Self::TimedOut
        )
    }

    /// Converts the error of a request whose response has not begun.
    pub(crate) fn before_response(error: RequestError) -> Self {
        match error {
            RequestError::Broken(_) | RequestError::Tls(_) | RequestError::Unusable => {
                Self::NoResponse(error)
            }
            other => Self::from(other),
        }
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

/// The statement of a failed request about the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It says nothing: the API server throttles or refuses the credentials, or the fault is our
    /// own, such as DNS that does not answer, or no file descriptor, port, memory or route.
    Transient,
    /// No client can reach an API server at this address: connections are refused, or cut before a
    /// response.
    Down,
    /// The API server may work for other clients: it is slow, or responds with errors or nonsense.
    Unclear,
}

fn connect_failure(error: &ConnectError) -> FailureKind {
    match error {
        ConnectError::Local { .. }
        | ConnectError::LocalAddress { .. }
        | ConnectError::Resolve {
            source: ResolveError::Unavailable(_),
            ..
        } => FailureKind::Transient,
        ConnectError::Refused { .. }
        | ConnectError::Tls {
            fault: TlsFault::Closed,
            ..
        } => FailureKind::Down,
        ConnectError::Unreachable { source, .. }
            if source.kind() == io::ErrorKind::ConnectionReset =>
        {
            FailureKind::Down
        }
        // A name that never existed is a mistake in the kubeconfig. If it once had an address,
        // that address is used.
        ConnectError::Resolve {
            source: ResolveError::NotFound,
            ..
        }
        | ConnectError::Unreachable { .. }
        | ConnectError::Tls { .. } => FailureKind::Unclear,
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

#[cfg(test)]
mod tests {
    use kelpie_net::ClientCertRejection;

    use super::*;

    #[test]
    fn rejected_certificate_is_denied() {
        let rejected = TlsFault::ClientCertRejected(ClientCertRejection::Expired);
        // TLS 1.2 rejects it within the handshake, TLS 1.3 after that.
        let handshake = |fault| {
            let at = "api:443".to_owned();
            TenantError::from(ConnectError::Tls { at, fault })
        };
        let request = |fault| TenantError::before_response(RequestError::Tls(fault));
        for error in [handshake(rejected.clone()), request(rejected)] {
            assert!(error.is_denied() && error.is_transient(), "{error}");
            assert!(error.to_string().ends_with("it has expired"), "{error}");
        }
        for error in [handshake(TlsFault::UnknownCa), request(TlsFault::NotTls)] {
            assert!(!error.is_denied(), "{error}");
            assert_eq!(error.failure(), FailureKind::Unclear, "{error}");
        }
    }

    #[test]
    fn lost_connection_is_down_only_before_response() {
        let lost = || RequestError::Broken("reset".into());
        let before = TenantError::before_response(lost());
        assert_eq!(before.failure(), FailureKind::Down);
        assert_eq!(TenantError::from(lost()).failure(), FailureKind::Unclear);
    }
}
