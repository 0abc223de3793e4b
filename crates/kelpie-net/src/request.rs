//! Errors of a request.

use crate::endpoint::Endpoint;
use crate::tls_fault::TlsFault;

/// A request without a complete response. The connection cannot be used afterwards.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The peer closed or reset the connection before the end of its response.
    #[error("the connection was lost: {0}")]
    Broken(String),
    /// TLS failed after the handshake. With TLS 1.3 a server rejects a client certificate only
    /// then.
    #[error("{0}")]
    Tls(TlsFault),
    /// The response head exceeds the limits on its size or on the number of headers.
    #[error("the response head is too large or has too many headers")]
    HeadTooLarge,
    /// The response body exceeds the limit of the caller.
    #[error("the response is larger than {limit} bytes")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The response is not valid HTTP/1.1.
    #[error("the response is not valid HTTP/1.1: {0}")]
    Malformed(String),
    /// The request itself cannot be sent. This is an error of the caller.
    #[error("the request cannot be sent: {0}")]
    Invalid(String),
    /// The connection is closed, or an earlier response was not read to its end. Open another one.
    #[error("the connection is closed or still busy with an earlier response")]
    Unusable,
}

impl From<hyper::Error> for RequestError {
    fn from(error: hyper::Error) -> Self {
        if let Some(fault) = TlsFault::in_error_chain(&error) {
            Self::Tls(fault)
        } else if error.is_parse_too_large() {
            Self::HeadTooLarge
        } else if error.is_parse() {
            Self::Malformed(full_text(&error))
        } else if error.is_user() {
            Self::Invalid(full_text(&error))
        } else {
            Self::Broken(full_text(&error))
        }
    }
}

/// Returns the error with its sources, which hyper's own text leaves out.
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

/// Returns the request target below the path of the endpoint.
pub(crate) fn target(endpoint: &Endpoint, path: &str) -> Result<http::Uri, RequestError> {
    if !path.starts_with('/') {
        return Err(RequestError::Invalid(
            "its path does not start with /".into(),
        ));
    }
    let uri = http::Uri::try_from([&endpoint.base_path, path].concat());
    uri.map_err(|error| RequestError::Invalid(error.to_string()))
}
