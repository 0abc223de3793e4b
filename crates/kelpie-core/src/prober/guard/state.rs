//! The state of a guard.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Time;

/// The state of a guard, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum GuardState {
    /// Nothing is known yet, or the leases prove nothing.
    Unknown,
    /// The API server does not know policies.
    Unsupported,
    /// The credentials do not allow to write the policy.
    Refused,
    /// Another watchdog guards the cluster.
    #[serde(rename_all = "camelCase")]
    Foreign {
        /// The watchdog that wrote the policy.
        owner: String,
    },
    /// Another client deleted or changed the policy or its binding. It is being restored.
    Lost,
    /// The policy is written, but was not seen to be enforced.
    #[serde(rename_all = "camelCase")]
    Unproven {
        /// The end of the guard on the API server's clock.
        until: Time,
    },
    /// The policy is enforced.
    #[serde(rename_all = "camelCase")]
    Armed {
        /// The end of the guard on the API server's clock.
        until: Time,
    },
    /// The policy has run out, because the prober could not renew it.
    Expired,
}

impl GuardState {
    /// Returns the state as it appears in metric labels.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
            Self::Foreign { .. } => "foreign",
            Self::Lost => "lost",
            Self::Unproven { .. } => "unproven",
            Self::Armed { .. } => "armed",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not armed yet"),
            Self::Unsupported => {
                f.write_str("the API server has no ValidatingAdmissionPolicy (Kubernetes 1.30)")
            }
            Self::Refused => f.write_str("the kubeconfig does not allow it"),
            Self::Foreign { owner } => write!(f, "kept by another watchdog, {owner}"),
            Self::Lost => f.write_str("another client deleted or changed it; restoring it"),
            Self::Unproven { until } => {
                write!(f, "written until {until}, not seen to be enforced yet")
            }
            Self::Armed { until } => write!(f, "armed until {until}"),
            Self::Expired => f.write_str("it has run out"),
        }
    }
}
