//! What is tried on a target, and what becomes of it.

use std::time::Duration;

use kelpie_core::ResourceRef;
use thiserror::Error;

use crate::seed::fault::Fault;

/// Why a call on a target failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// Somebody has to grant the permission.
    #[error("may not {verb} {what}: {reason}; grant get and patch on it and on its scale")]
    Denied {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
        /// What the API server said.
        reason: String,
    },
    /// The API server has too much to do; later it may work.
    #[error("cannot {verb} {what} now: the API server has too many requests; it is tried again")]
    Throttled {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
    },
    /// The configuration has to name another kind.
    #[error("cannot scale {what}: its kind has no scale subresource; name one that has")]
    NotScalable {
        /// The object.
        what: String,
    },
    /// The configuration has to name another kind, or the kind has to be installed.
    #[error("cannot find {what}: the API server knows no kind {kind} in {api_version}")]
    UnknownKind {
        /// The object.
        what: String,
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// There is no such object.
    #[error("cannot {verb} {what}: it does not exist")]
    NotFound {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
    },
    /// Somebody else has changed it since it was read.
    #[error("cannot {verb} {what}: somebody else has changed it; it is read again")]
    Conflict {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
    },
    /// No answer came before the deadline; a write may have happened all the same.
    #[error("cannot {verb} {what}: no answer within {limit:?}; is the API server overloaded?")]
    TimedOut {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
        /// The caller's limit.
        limit: Duration,
    },
    /// Anything else: later it may work.
    #[error("cannot {verb} {what}: {reason}; is the API server up?")]
    Unavailable {
        /// What was tried.
        verb: &'static str,
        /// The object.
        what: String,
        /// What went wrong.
        reason: String,
    },
}

/// What is tried on which object.
#[derive(Clone, Copy)]
pub(super) struct Deed<'a> {
    verb: &'static str,
    pub(super) namespace: &'a str,
    pub(super) target: &'a ResourceRef,
}

impl<'a> Deed<'a> {
    pub(super) fn new(verb: &'static str, namespace: &'a str, target: &'a ResourceRef) -> Self {
        Self {
            verb,
            namespace,
            target,
        }
    }

    pub(super) fn what(&self) -> String {
        if self.namespace.is_empty() {
            self.target.to_string()
        } else {
            format!("{} in namespace {}", self.target, self.namespace)
        }
    }

    pub(super) fn failed(&self, fault: Fault, limit: Duration) -> TargetError {
        let (verb, what) = (self.verb, self.what());
        match fault {
            Fault::Unknown(reason) | Fault::Denied(reason) => {
                TargetError::Denied { verb, what, reason }
            }
            Fault::NotFound => TargetError::NotFound { verb, what },
            Fault::Conflict => TargetError::Conflict { verb, what },
            Fault::Throttled => TargetError::Throttled { verb, what },
            Fault::TimedOut => TargetError::TimedOut { verb, what, limit },
            Fault::Expired | Fault::Unavailable(_) => TargetError::Unavailable {
                verb,
                what,
                reason: fault.to_string(),
            },
        }
    }
}
