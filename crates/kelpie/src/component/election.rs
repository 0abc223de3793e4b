//! Flags of the leader election.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use kelpie_config::GoDuration;
use kelpie_kube::leader::ElectionSettings;

use crate::go_flags::go_bools;

#[derive(Args)]
#[command(
    next_help_heading = "Leader election",
    mut_args(go_bools(&["enable_leader_election"]))
)]
pub(crate) struct ElectionFlags {
    /// Act only as the elected leader; a standby observes and takes over without a gap
    #[arg(long)]
    enable_leader_election: bool,

    /// Namespace for the Lease and for Events on cluster-scoped objects
    #[arg(long, value_name = "NAMESPACE", default_value = "garden")]
    leader_election_namespace: String,

    /// Time that standbys wait after the last renewal they saw
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    leader_elect_lease_duration: GoDuration,

    /// Time that the leader acts after its last renewal
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    leader_elect_renew_deadline: GoDuration,

    /// Time between renewals of the leader, and between reads of the standbys
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    leader_elect_retry_period: GoDuration,
}

impl ElectionFlags {
    /// Validates the flags. Returns `None` if there is no election. `lease` is the name of the
    /// Lease.
    pub(crate) fn check(&self, lease: &str) -> Result<Option<ElectionSettings>> {
        let settings = ElectionSettings {
            namespace: self.leader_election_namespace.clone(),
            name: lease.to_owned(),
            identity: identity(),
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
        };
        let wrong = if settings.lease_duration <= settings.renew_deadline {
            Some("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")
        } else if settings.renew_deadline <= settings.retry_period {
            Some("--leader-elect-renew-deadline must be longer than --leader-elect-retry-period")
        } else if settings.retry_period.is_zero() {
            Some("--leader-elect-retry-period must be longer than 0s")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(crate::cli::usage_error(wrong));
        }
        Ok(self.enable_leader_election.then_some(settings))
    }

    /// Returns the namespace of the Lease.
    pub(crate) fn namespace(&self) -> &str {
        &self.leader_election_namespace
    }
}

/// Returns the settings of an election with this Lease and the defaults of Kubernetes' own
/// controllers.
pub(crate) fn default_election(namespace: &str, lease: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: namespace.to_owned(),
        name: lease.to_owned(),
        identity: identity(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// Returns the identity of this process, which no other replica and no earlier process has.
pub(crate) fn identity() -> String {
    static SUFFIX: LazyLock<String> = LazyLock::new(suffix);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "kelpie",
        host => host,
    };
    format!("{host}_{}", *SUFFIX)
}

/// Returns a random suffix. Host name and process id are not enough: replicas on the host network
/// share its name, and each of them is process 1. The system provides the randomness, because
/// replicas may start at the same moment.
fn suffix() -> String {
    format!("{:016x}", RandomState::new().hash_one(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_unique_per_process() {
        let identity = identity();
        let (_, own) = identity.rsplit_once('_').unwrap();
        assert_ne!(own, std::process::id().to_string());
        assert!(own.len() == 16 && own.chars().all(|it| it.is_ascii_hexdigit()));
        assert_ne!(suffix(), suffix());
    }

    #[test]
    fn identity_is_stable() {
        assert_eq!(identity(), identity());
    }
}
