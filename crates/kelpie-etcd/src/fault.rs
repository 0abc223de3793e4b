//! Why a call failed, by what it says about etcd.

use tonic::{Code, Status};

/// Why a call to the member failed. The variants differ in what they prove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nobody listens: evidence about etcd.
    #[error("connection refused")]
    Refused,
    /// Nothing came back in the time the call was given.
    #[error("no answer")]
    Silent,
    /// The connection was lost under the call, and again on a fresh one.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// Trouble of our own: addresses, certificates, flags. It says nothing about etcd.
    #[error("{0}")]
    Own(String),
    /// etcd did not answer the log-in, for which it needs its quorum. Neither trouble of our own
    /// nor evidence.
    #[error("no auth token: etcd has not answered the log-in, which needs a quorum")]
    NoToken,
    /// etcd answered that we may not: who we are, or what we may do. Trouble of our own too, but
    /// an answer.
    #[error("{0}")]
    Denied(String),
    /// The member knows no leader.
    #[error("no leader")]
    NoLeader,
    /// The member has just started and does not know yet what its cluster can do.
    #[error("etcdserver: not capable")]
    NotCapable,
    /// The member is a learner and does not answer this.
    #[error("not supported for learner")]
    Learner,
    /// etcd says that another member took over while the call was under way.
    #[error("leader changed")]
    LeaderChanged,
    /// etcd gave up on the call itself.
    #[error("{0}")]
    TimedOut(String),
    /// Any other answer of etcd: evidence about it.
    #[error("{0}")]
    Server(String),
    /// An answer that no etcd gives; something else listens, or stands between.
    #[error("{0}")]
    Foreign(String),
}

/// How etcd begins the messages that are its own.
const ETCD: &str = "etcdserver: ";

/// Messages about who we are and what we may do, without their beginning.
const DENIALS: [&str; 10] = [
    "authentication failed",
    "invalid auth management",
    "invalid auth token",
    "permission denied",
    "permission not given",
    "revision of auth store is old",
    "role is not granted",
    "root user does not",
    "user name is empty",
    "user name not found",
];

impl Fault {
    /// By the words: codes differ between versions, and one code stands for many things.
    pub(crate) fn of_answer(status: &Status) -> Self {
        let message = status.message();
        if let Some(said) = message.strip_prefix(ETCD) {
            return Self::of_words(said);
        }
        if message.starts_with("auth: ") {
            return Self::Denied(message.to_owned());
        }
        match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => Self::Silent,
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied(message.to_owned()),
            Code::Unimplemented => Self::Foreign(format!(
                "no etcd answers there ({}): is the endpoint the client URL of a member?",
                brief(message)
            )),
            code => Self::Foreign(format!("unexpected answer, {code:?}: {}", brief(message))),
        }
    }

    fn of_words(said: &str) -> Self {
        if DENIALS.iter().any(|denial| said.starts_with(denial)) {
            let remedy = match said {
                "user name is empty" => "; authentication is on: give --user",
                "permission denied" => "; the user may not read the key `health`, or needs a role",
                _ => "",
            };
            return Self::Denied(format!("{ETCD}{said}{remedy}"));
        }
        match said {
            "no leader" => Self::NoLeader,
            "not capable" => Self::NotCapable,
            "rpc not supported for learner" => Self::Learner,
            "leader changed" => Self::LeaderChanged,
            "request canceled" | "context deadline exceeded" => Self::Silent,
            said if said.starts_with("request timed out") => {
                Self::TimedOut(format!("{ETCD}{said}"))
            }
            said => Self::Server(format!("{ETCD}{said}")),
        }
    }

    /// True if etcd itself said something, so it runs and its API is served.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Denied(_)
            | Self::NoLeader
            | Self::NotCapable
            | Self::Learner
            | Self::LeaderChanged
            | Self::TimedOut(_)
            | Self::Server(_) => true,
            Self::Refused
            | Self::Silent
            | Self::Broken(_)
            | Self::Own(_)
            | Self::NoToken
            | Self::Foreign(_) => false,
        }
    }

    /// True for trouble of our own, which no restart of etcd cures.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Denied(_) | Self::Foreign(_))
    }

    /// True if no answer came, be it that etcd itself gave up waiting.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Silent | Self::TimedOut(_))
    }

    /// True if a new token may help.
    pub(crate) fn wants_new_token(&self) -> bool {
        let stale = [
            "invalid auth token",
            "revision of auth store is old",
            // Authentication was switched on after we began.
            "user name is empty",
        ];
        matches!(self, Self::Denied(said) if stale.iter().any(|words| said.contains(words)))
    }
}

/// Text of a stranger may be long.
fn brief(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_decide_not_the_code() {
        let fault = |code, message: &str| Fault::of_answer(&Status::new(code, message));
        let learner = "etcdserver: rpc not supported for learner";
        let denied = |words: &str| Fault::Denied(words.to_owned());
        for (code, message, expected) in [
            (Code::Unavailable, "etcdserver: no leader", Fault::NoLeader),
            (
                Code::Unavailable,
                "etcdserver: not capable",
                Fault::NotCapable,
            ),
            (Code::Unavailable, learner, Fault::Learner),
            (Code::FailedPrecondition, learner, Fault::Learner),
            (
                Code::Unavailable,
                "etcdserver: leader changed",
                Fault::LeaderChanged,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                denied("etcdserver: user name is empty; authentication is on: give --user"),
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                denied(
                    "etcdserver: permission denied; the user may not read the key `health`, or \
                     needs a role",
                ),
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                denied("etcdserver: invalid auth token"),
            ),
            (
                Code::Unknown,
                "auth: invalid credentials",
                denied("auth: invalid credentials"),
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
                Fault::TimedOut(
                    "etcdserver: request timed out, possibly due to previous leader failure"
                        .to_owned(),
                ),
            ),
            (
                Code::Unavailable,
                "etcdserver: server stopped",
                Fault::Server("etcdserver: server stopped".to_owned()),
            ),
            (Code::DeadlineExceeded, "context", Fault::Silent),
            (Code::Cancelled, "Timeout expired", Fault::Silent),
            (
                Code::Unavailable,
                "upstream connect error",
                Fault::Foreign("unexpected answer, Unavailable: upstream connect error".to_owned()),
            ),
        ] {
            assert_eq!(fault(code, message), expected, "{message}");
        }
    }

    #[test]
    fn a_stranger_is_asked_about_the_endpoint() {
        let fault = Fault::of_answer(&Status::new(Code::Unimplemented, "x".repeat(500)));
        let text = fault.to_string();
        assert!(text.starts_with("no etcd answers there"), "{text}");
        assert!(text.ends_with("client URL of a member?"), "{text}");
        assert!(text.len() < 250, "{text}");
        assert!(fault.is_own() && !fault.is_answer());
    }

    #[test]
    fn a_stale_token_is_told_from_a_wrong_password() {
        let denied = |words: &str| Fault::Denied(words.to_owned()).wants_new_token();
        assert!(denied("etcdserver: invalid auth token"));
        assert!(denied("etcdserver: revision of auth store is old"));
        assert!(!denied(
            "etcdserver: authentication failed, invalid user ID or password"
        ));
        assert!(!denied("etcdserver: permission denied"));
    }
}
