//! Errors of requests to an API server, by remedy.

use std::error::Error;
use std::fmt;

/// Messages of the API server are cut to this length.
const MAX_MESSAGE_CHARS: usize = 500;

/// A failed request, sorted by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// 401: the API server does not accept the credentials, or not yet after a rotation.
    Unauthorized(String),
    /// 403: a permission is missing.
    Forbidden(String),
    /// 404: the object or its kind does not exist.
    NotFound,
    /// 409: another client changed the object first.
    Conflict,
    /// 410: the resource version of the request is too old.
    Expired,
    /// 429: the API server is overloaded.
    Throttled,
    /// There was no response before the deadline.
    TimedOut,
    /// Any other failure: a status of 5xx, a broken connection, an invalid response.
    Unavailable(String),
}

impl ApiError {
    pub(crate) fn from_status(code: u16, message: &str) -> Self {
        match code {
            401 => Self::Unauthorized(shortened(message)),
            403 => Self::Forbidden(shortened(message)),
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 => Self::Throttled,
            _ => Self::Unavailable(shortened(&format!("status {code}: {message}"))),
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
            other => Self::Unavailable(shortened(&root_cause(other))),
        }
    }
}

/// Returns the last error of a chain. The layers above it add the same text to every cause.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthorized(reason) | Self::Forbidden(reason) | Self::Unavailable(reason) => {
                f.write_str(reason)
            }
            Self::NotFound => f.write_str("not found"),
            Self::Conflict => f.write_str("another client changed it"),
            Self::Expired => f.write_str("the resource version is too old"),
            Self::Throttled => f.write_str("too many requests"),
            Self::TimedOut => f.write_str("no response in time"),
        }
    }
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
            (429, ApiError::Throttled),
            (500, ApiError::Unavailable("status 500: why".into())),
            (503, ApiError::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(ApiError::from_status(code, "why"), expected);
        }
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
