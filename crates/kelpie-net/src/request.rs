//! Why a request got no answer.

use crate::endpoint::Endpoint;
use crate::fault::{TlsFault, rustls_error};

/// Why a request got no answer, or not all of it. The connection is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The peer closed or reset the connection, before or within its answer.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// With TLS 1.3 a server refuses a client certificate only after the handshake.
    #[error("{0}")]
    Tls(TlsFault),
    /// The answer's headers go beyond what is accepted.
    #[error("the answer's headers are larger than 8 KiB or more than 100")]
    HeadTooLarge,
    /// The answer's body goes beyond what the caller accepts.
    #[error("the answer is larger than {limit} bytes")]
    BodyTooLarge {
        /// What was accepted.
        limit: usize,
    },
    /// The answer is not HTTP/1.1.
    #[error("the answer is not valid HTTP/1.1: {0}")]
    Malformed(String),
    /// The request itself cannot be sent: a fault of the caller.
    #[error("the request cannot be sent: {0}")]
    Invalid(String),
    /// An earlier answer was not read to its end, or the connection is closed: open another.
    #[error("the connection is closed or still busy with an earlier answer")]
    Unusable,
}

impl RequestError {
    pub(crate) fn from_hyper(error: &hyper::Error) -> Self {
        if let Some(tls) = rustls_error(error) {
            return Self::Tls(TlsFault::from(tls));
        }
        if error.is_parse_too_large() {
            Self::HeadTooLarge
        } else if error.is_parse() {
            Self::Malformed(full_text(error))
        } else if error.is_user() {
            Self::Invalid(full_text(error))
        } else {
            Self::Broken(full_text(error))
        }
    }
}

/// The error with its sources; hyper's own text leaves them out.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// The request's target below the endpoint's path.
pub(crate) fn target(endpoint: &Endpoint, path: &str) -> Result<http::Uri, RequestError> {
    if !path.starts_with('/') {
        return Err(RequestError::Invalid(
            "its path does not start with /".into(),
        ));
    }
    let whole = if endpoint.base_path().is_empty() {
        http::Uri::try_from(path)
    } else {
        http::Uri::try_from([endpoint.base_path(), path].concat())
    };
    whole.map_err(|error| RequestError::Invalid(error.to_string()))
}
