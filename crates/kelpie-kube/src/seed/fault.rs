//! What went wrong with a request, sorted by what can be done about it.

use std::error::Error;
use std::fmt;

/// What the API server says is passed on up to this length.
const LONGEST: usize = 500;

/// A request that did not get what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 401: the API server does not know us, or not yet after a rotation.
    Unknown(String),
    /// 403.
    Denied(String),
    /// 404: the object, or the whole kind.
    NotFound,
    /// 409.
    Conflict,
    /// 410: what the request rests on is too old.
    Expired,
    /// 429.
    Throttled,
    /// The request ran into its deadline.
    TimedOut,
    /// Anything else.
    Unavailable(String),
}

impl Fault {
    pub(crate) fn from_status(code: u16, message: &str) -> Self {
        match code {
            401 => Self::Unknown(shortened(message)),
            403 => Self::Denied(shortened(message)),
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 => Self::Throttled,
            _ => Self::Unavailable(shortened(&format!("status {code}: {message}"))),
        }
    }
}

impl From<&kube::Error> for Fault {
    fn from(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status.code, &status.message),
            // The decoder quotes what it stumbled over, and that may be secret.
            kube::Error::SerdeError(error) => Self::Unavailable(format!(
                "an answer that is not understood (line {}, column {})",
                error.line(),
                error.column()
            )),
            other => Self::Unavailable(shortened(&root_cause(other))),
        }
    }
}

/// The end of a chain of errors: what the layers above add is the same for every cause.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(reason) | Self::Denied(reason) | Self::Unavailable(reason) => {
                f.write_str(reason)
            }
            Self::NotFound => f.write_str("not found"),
            Self::Conflict => f.write_str("somebody else changed it"),
            Self::Expired => f.write_str("too far behind"),
            Self::Throttled => f.write_str("too many requests"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_sorted_by_what_can_be_done_about_it() {
        for (code, expected) in [
            (401, Fault::Unknown("why".into())),
            (403, Fault::Denied("why".into())),
            (404, Fault::NotFound),
            (409, Fault::Conflict),
            (410, Fault::Expired),
            (429, Fault::Throttled),
            (500, Fault::Unavailable("status 500: why".into())),
            (503, Fault::Unavailable("status 503: why".into())),
        ] {
            assert_eq!(Fault::from_status(code, "why"), expected);
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let Fault::Denied(reason) = Fault::from_status(403, &"ä".repeat(600)) else {
            panic!("it is denied");
        };
        assert_eq!(reason.chars().count(), LONGEST + 1);
    }

    #[test]
    fn what_the_decoder_stumbled_over_is_not_repeated() {
        let error = serde_json::from_str::<u8>(r#""a secret""#).unwrap_err();
        let said = Fault::from(&kube::Error::SerdeError(error)).to_string();
        assert!(!said.contains("secret"), "{said}");
    }
}
