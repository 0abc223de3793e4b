//! Errors of requests to an API server, by remedy.

use std::error::Error as StdError;
use std::time::Duration;

use kelpie_core::truncated;
use kelpie_net::TlsFault;
use thiserror::Error;

/// Messages of the API server are cut to this length.
const MAX_MESSAGE_CHARS: usize = 500;
/// In the message of an API server whose webhook has no backend, or answers too late. A webhook
/// that answers and denies a request has another message.
const FAILED_WEBHOOK: &str = "failed calling webhook";

/// A failed request, sorted by what can be done about it. The texts are the API server's, without
/// the operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    /// 401: the API server does not accept the credentials, or not yet after a rotation.
    #[error("HTTP 401: the credentials were rejected ({0})")]
    Unauthorized(String),
    /// 403: a permission is missing.
    #[error("{0}")]
    Forbidden(String),
    /// 404: the object, its namespace or its kind does not exist.
    #[error("not found")]
    NotFound,
    /// 409: another client changed the object first. Read it again.
    #[error("another client changed it")]
    Conflict,
    /// 410: the resource version of the request is too old.
    #[error("the resource version is too old")]
    Expired,
    /// 429: the API server is overloaded. Try again after this time.
    #[error("too many requests")]
    Throttled(Option<Duration>),
    /// 400, 422 and other 4xx: the same request will never be accepted.
    #[error("status {status}: {reason}")]
    #[expect(missing_docs, reason = "the message shows each field")]
    Invalid { status: u16, reason: String },
    /// 500: an admission webhook of the API server did not answer, so nothing was changed.
    #[error("{0}")]
    Webhook(String),
    /// TLS failed: neither permissions nor the health of the API server are in question. A write
    /// may have happened if it failed late.
    #[error("{0}")]
    Tls(TlsFault),
    /// There was no response before the deadline. A write may have happened all the same.
    #[error("no response in time")]
    TimedOut,
    /// Any other failure: a status of 5xx, a broken connection, an invalid response. A later
    /// attempt may succeed.
    #[error("{0}")]
    Unavailable(String),
}

impl ApiError {
    pub(crate) fn from_status(status: u16, message: &str) -> Self {
        let reason = shortened(message);
        match status {
            401 => Self::Unauthorized(reason),
            403 => Self::Forbidden(reason),
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 => Self::Throttled(None),
            400..500 => Self::Invalid { status, reason },
            _ if reason.contains(FAILED_WEBHOOK) => Self::Webhook(reason),
            _ => Self::Unavailable(format!("status {status}: {reason}")),
        }
    }

    /// Returns why the request was denied: 401 or 403.
    pub fn denied(&self) -> Option<&str> {
        match self {
            Self::Unauthorized(reason) | Self::Forbidden(reason) => Some(reason),
            _ => None,
        }
    }

    /// Finds the error behind a failure of the client.
    pub(crate) fn from_chain(error: &(dyn StdError + 'static)) -> Self {
        match TlsFault::in_error_chain(error) {
            Some(fault) => Self::Tls(fault),
            None => Self::Unavailable(shortened(&root_cause(error))),
        }
    }

    /// Returns what to do about the error, for the end of a message.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unauthorized(_) => "renew the token or client certificate of the kubeconfig",
            Self::Forbidden(_) => "grant the permission",
            Self::Tls(fault) => tls_remedy(fault),
            Self::Throttled(_) => "the API server is overloaded; try again later",
            Self::NotFound
            | Self::Conflict
            | Self::Expired
            | Self::Invalid { .. }
            | Self::Webhook(_) => "check the API server",
            Self::TimedOut | Self::Unavailable(_) => {
                "check the API server and the connection to it"
            }
        }
    }
}

impl From<&kube::Error> for ApiError {
    fn from(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status.code, &status.message),
            // The decoder quotes the value that it rejects, which may be secret.
            kube::Error::SerdeError(error) => Self::Unavailable(format!(
                "the response cannot be decoded (line {}, column {})",
                error.line(),
                error.column()
            )),
            other => Self::from_chain(other),
        }
    }
}

fn tls_remedy(fault: &TlsFault) -> &'static str {
    match fault {
        TlsFault::UnknownCa => "check certificate-authority-data of the kubeconfig",
        TlsFault::WrongName => "check the server of the kubeconfig, or set its tls-server-name",
        TlsFault::ClientCertRejected(_) => "renew the client certificate of the kubeconfig",
        TlsFault::NotTls => "check the scheme and port of the server in the kubeconfig",
        TlsFault::Expired | TlsFault::NotYetValid | TlsFault::Certificate(_) => {
            "check the certificate of the API server"
        }
        TlsFault::Closed | TlsFault::Other(_) => "check the API server and proxies before it",
    }
}

/// Returns the last error of a chain. The layers above it add the same text to every cause.
pub(crate) fn root_cause(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

pub(crate) fn shortened(text: &str) -> String {
    truncated(text, MAX_MESSAGE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_maps_to_an_error() {
        for (code, expected) in [
            (401, ApiError::Unauthorized("why".into())),
            (403, ApiError::Forbidden("why".into())),
            (404, ApiError::NotFound),
            (409, ApiError::Conflict),
            (410, ApiError::Expired),
            (429, ApiError::Throttled(None)),
            (
                422,
                ApiError::Invalid {
                    status: 422,
                    reason: "why".into(),
                },
            ),
            (500, ApiError::Unavailable("status 500: why".into())),
            (503, ApiError::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(ApiError::from_status(code, "why"), expected);
        }
    }

    #[test]
    fn remedy_fits_the_cause() {
        let remedy = |error: ApiError| error.remedy();
        let rejected = remedy(ApiError::Unauthorized("Unauthorized".into()));
        assert!(rejected.contains("renew the token"), "{rejected}");
        assert!(!rejected.contains("grant"), "{rejected}");
        let untrusted = remedy(ApiError::Tls(TlsFault::UnknownCa));
        assert!(
            untrusted.contains("certificate-authority-data"),
            "{untrusted}"
        );
        let away = remedy(ApiError::Unavailable("refused".into()));
        assert!(away.contains("connection"), "{away}");
    }

    #[test]
    fn webhook_failures_are_told_apart() {
        let failed =
            "Internal error occurred: failed calling webhook \"a\": no endpoints available";
        assert_eq!(
            ApiError::from_status(500, failed),
            ApiError::Webhook(failed.into())
        );
        let denied = "admission webhook \"a\" denied the request";
        assert_eq!(
            ApiError::from_status(403, denied),
            ApiError::Forbidden(denied.into())
        );
    }

    #[test]
    fn long_message_is_cut_between_characters() {
        let ApiError::Forbidden(reason) = ApiError::from_status(403, &"ä".repeat(600)) else {
            panic!("not forbidden");
        };
        assert_eq!(reason.chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn decoding_error_hides_the_value() {
        let error = serde_json::from_str::<u8>(r#""a secret""#).unwrap_err();
        let message = ApiError::from(&kube::Error::SerdeError(error)).to_string();
        assert!(!message.contains("secret"), "{message}");
    }
}
