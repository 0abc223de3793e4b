//! What keeps a collector from its desired state, and when the addon is to blame for it.

use kelpie_kube::client::ApiError;
use kelpie_kube::objects::ObjectError;

/// A problem with the deployment of a collector, with a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// A permission or an input is missing, or a value is invalid. It needs an administrator and is
    /// reported at once.
    Definite(String),
    /// A request failed for a reason that may pass. It is retried, and reported only if it lasts.
    Transient(String),
}

impl Problem {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Definite(message) | Self::Transient(message) => message,
        }
    }

    /// Joins the problems of several objects. `None` if there are none.
    pub(super) fn join(problems: &[Self]) -> Option<Self> {
        let messages: Vec<&str> = problems.iter().map(Self::message).collect();
        let message = messages.join("; ");
        let is_definite = |problem: &Self| matches!(problem, Self::Definite(_));
        if problems.is_empty() {
            None
        } else if problems.iter().any(is_definite) {
            Some(Self::Definite(message))
        } else {
            Some(Self::Transient(message))
        }
    }
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        let message = error.to_string();
        match error.cause {
            ApiError::Forbidden(_) | ApiError::NotFound | ApiError::Invalid { .. } => {
                Self::Definite(message)
            }
            ApiError::Unauthorized(_)
            | ApiError::Conflict
            | ApiError::Expired
            | ApiError::Throttled(_)
            | ApiError::Webhook(_)
            | ApiError::Tls(_)
            | ApiError::TimedOut
            | ApiError::Unavailable(_) => Self::Transient(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(cause: ApiError) -> Problem {
        Problem::from(ObjectError {
            role: "spoke",
            verb: "read",
            what: "it".to_owned(),
            cause,
        })
    }

    #[test]
    fn only_errors_of_the_addon_are_definite() {
        let text = || "why".to_owned();
        let invalid = ApiError::Invalid {
            status: 422,
            reason: text(),
        };
        for cause in [ApiError::Forbidden(text()), ApiError::NotFound, invalid] {
            assert!(matches!(problem(cause), Problem::Definite(_)));
        }
        for cause in [
            ApiError::Unauthorized(text()),
            ApiError::Conflict,
            ApiError::Expired,
            ApiError::Throttled(None),
            ApiError::Webhook(text()),
            ApiError::TimedOut,
            ApiError::Unavailable(text()),
        ] {
            assert!(matches!(problem(cause), Problem::Transient(_)));
        }
    }

    #[test]
    fn one_definite_problem_is_decisive() {
        let [definite, transient] = [
            Problem::Definite("a".to_owned()),
            Problem::Transient("b".to_owned()),
        ];
        assert_eq!(Problem::join(&[]), None);
        let joined = Problem::join(&[transient.clone(), transient.clone()]);
        assert_eq!(joined, Some(Problem::Transient("b; b".to_owned())));
        let joined = Problem::join(&[transient, definite]);
        assert_eq!(joined, Some(Problem::Definite("b; a".to_owned())));
    }
}
