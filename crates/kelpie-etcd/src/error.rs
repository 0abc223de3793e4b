//! The reasons why a call to etcd fails.

use tonic::{Code, Status};

/// The reason why a call to the member failed. The variants differ in what they prove about etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No process listens at the endpoint. This is evidence about etcd.
    #[error("connection refused")]
    ConnectionRefused,
    /// No response came within the time limit of the call.
    #[error("no answer")]
    NoResponse,
    /// The connection was lost during the call, and again on a new connection.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The probe's own addresses, certificates or flags are wrong. This proves nothing about etcd.
    #[error("{0}")]
    Misconfigured(String),
    /// etcd did not answer the login, for which it needs a quorum. This is neither a problem of the
    /// probe nor evidence about etcd.
    #[error("no auth token: etcd has not answered the login, which needs a quorum")]
    NoToken,
    /// etcd rejected the identity or the permissions of the probe. This is a problem of the probe,
    /// but also a response of etcd.
    #[error("{0}")]
    AccessDenied(String),
    /// The member knows no leader.
    #[error("no leader")]
    NoLeader,
    /// The member has just started and does not know the capabilities of its cluster yet.
    #[error("etcdserver: not capable")]
    NotCapable,
    /// The member is a learner, which does not support this call.
    #[error("not supported for learner")]
    Learner,
    /// Another member became leader during the call.
    #[error("leader changed")]
    LeaderChanged,
    /// etcd's own time limit for the call expired.
    #[error("{0}")]
    ServerTimeout(String),
    /// Any other error that etcd returned. This is evidence about etcd.
    #[error("{0}")]
    ServerError(String),
    /// A response that etcd never sends: another server listens there, or a proxy is in between.
    #[error("{0}")]
    NotEtcd(String),
}

/// The prefix of etcd's own messages.
const ETCD: &str = "etcdserver: ";

/// Messages about authentication and permissions, without the prefix.
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

impl EtcdError {
    /// Classifies a gRPC status by its message: codes differ between versions, and one code has
    /// many meanings.
    pub(crate) fn from_status(status: &Status) -> Self {
        let message = status.message();
        if let Some(message) = message.strip_prefix(ETCD) {
            return Self::from_message(message);
        }
        if message.starts_with("auth: ") {
            return Self::AccessDenied(message.to_owned());
        }
        match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => Self::NoResponse,
            Code::Unauthenticated | Code::PermissionDenied => {
                Self::AccessDenied(message.to_owned())
            }
            Code::Unimplemented => Self::NotEtcd(format!(
                "not an etcd server ({}): check that --endpoints is the client URL of a member",
                truncate(message)
            )),
            code => Self::NotEtcd(format!(
                "unexpected response, {code:?}: {}",
                truncate(message)
            )),
        }
    }

    fn from_message(message: &str) -> Self {
        if DENIALS.iter().any(|denial| message.starts_with(denial)) {
            let remedy = match message {
                "user name is empty" => "; authentication is enabled: set --user",
                "permission denied" => "; grant the user a role that may read the key `health`",
                _ => "",
            };
            return Self::AccessDenied(format!("{ETCD}{message}{remedy}"));
        }
        match message {
            "no leader" => Self::NoLeader,
            "not capable" => Self::NotCapable,
            "rpc not supported for learner" => Self::Learner,
            "leader changed" => Self::LeaderChanged,
            "request canceled" | "context deadline exceeded" => Self::NoResponse,
            message if message.starts_with("request timed out") => {
                Self::ServerTimeout(format!("{ETCD}{message}"))
            }
            message => Self::ServerError(format!("{ETCD}{message}")),
        }
    }

    /// Returns true if etcd itself responded, which proves that it runs and serves its API.
    pub fn is_response(&self) -> bool {
        match self {
            Self::AccessDenied(_)
            | Self::NoLeader
            | Self::NotCapable
            | Self::Learner
            | Self::LeaderChanged
            | Self::ServerTimeout(_)
            | Self::ServerError(_) => true,
            Self::ConnectionRefused
            | Self::NoResponse
            | Self::ConnectionLost(_)
            | Self::Misconfigured(_)
            | Self::NoToken
            | Self::NotEtcd(_) => false,
        }
    }

    /// Returns true for problems of the probe itself, which a restart of etcd does not solve.
    pub fn is_probe_problem(&self) -> bool {
        matches!(
            self,
            Self::Misconfigured(_) | Self::AccessDenied(_) | Self::NotEtcd(_)
        )
    }

    /// Returns true if the call may succeed with a new token.
    pub(crate) fn needs_new_token(&self) -> bool {
        let stale = [
            "invalid auth token",
            "revision of auth store is old",
            // Authentication was enabled after the probe started.
            "user name is empty",
        ];
        matches!(self, Self::AccessDenied(message) if stale.iter().any(|s| message.contains(s)))
    }
}

/// Shortens the text of an unknown server, which may be long.
fn truncate(text: &str) -> String {
    kelpie_core::truncated(text, 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_decides_not_the_code() {
        let error = |code, message: &str| EtcdError::from_status(&Status::new(code, message));
        let learner = "etcdserver: rpc not supported for learner";
        let denied = |message: &str| EtcdError::AccessDenied(message.to_owned());
        for (code, message, expected) in [
            (
                Code::Unavailable,
                "etcdserver: no leader",
                EtcdError::NoLeader,
            ),
            (
                Code::Unavailable,
                "etcdserver: not capable",
                EtcdError::NotCapable,
            ),
            (Code::Unavailable, learner, EtcdError::Learner),
            (Code::FailedPrecondition, learner, EtcdError::Learner),
            (
                Code::Unavailable,
                "etcdserver: leader changed",
                EtcdError::LeaderChanged,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                denied("etcdserver: user name is empty; authentication is enabled: set --user"),
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                denied(
                    "etcdserver: permission denied; grant the user a role that may read the key \
                     `health`",
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
                EtcdError::ServerTimeout(
                    "etcdserver: request timed out, possibly due to previous leader failure"
                        .to_owned(),
                ),
            ),
            (
                Code::Unavailable,
                "etcdserver: server stopped",
                EtcdError::ServerError("etcdserver: server stopped".to_owned()),
            ),
            (Code::DeadlineExceeded, "context", EtcdError::NoResponse),
            (Code::Cancelled, "Timeout expired", EtcdError::NoResponse),
            (
                Code::Unavailable,
                "upstream connect error",
                EtcdError::NotEtcd(
                    "unexpected response, Unavailable: upstream connect error".to_owned(),
                ),
            ),
        ] {
            assert_eq!(error(code, message), expected, "{message}");
        }
    }

    #[test]
    fn other_servers_point_to_the_endpoint() {
        let error = EtcdError::from_status(&Status::new(Code::Unimplemented, "x".repeat(500)));
        let text = error.to_string();
        assert!(text.starts_with("not an etcd server"), "{text}");
        assert!(text.ends_with("client URL of a member"), "{text}");
        assert!(text.len() < 250, "{text}");
        assert!(error.is_probe_problem() && !error.is_response());
    }

    #[test]
    fn only_a_stale_token_is_renewed() {
        let denied = |message: &str| EtcdError::AccessDenied(message.to_owned()).needs_new_token();
        assert!(denied("etcdserver: invalid auth token"));
        assert!(denied("etcdserver: revision of auth store is old"));
        assert!(!denied(
            "etcdserver: authentication failed, invalid user ID or password"
        ));
        assert!(!denied("etcdserver: permission denied"));
    }
}
