//! The processes of the addon, and the permissions of each.

use clap::ValueEnum;
use kelpie_addon::{
    AddonRef, OperatorOptions, collector_rules, hub_status_rules, operator_rules, status_rules,
};
use kelpie_kube::rbac::PolicyRule;

use super::{hop, operator, status};
use crate::component::default_election;

/// A process of the addon, named like its subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddonProcess {
    /// Deploys the collectors
    Operator,
    /// Aggregates the status and replicates it to the hub
    Status,
    /// Forwards metrics
    Collector,
    /// Shows every cluster's addon on the hub
    Hop,
}

impl AddonProcess {
    /// Returns the permissions on the cluster in which the process runs.
    pub(crate) fn policy_rules(
        self,
        addon: &AddonRef,
        options: &OperatorOptions,
        leader_election: bool,
    ) -> Vec<PolicyRule> {
        let election =
            |lease: &str| leader_election.then(|| default_election(&addon.namespace, lease));
        match self {
            Self::Operator => operator_rules(addon, options, election(operator::LEASE).as_ref()),
            Self::Status => status_rules(addon, election(status::LEASE).as_ref()),
            Self::Collector => collector_rules(addon),
            Self::Hop => hub_status_rules(election(hop::LEASE).as_ref()),
        }
    }

    /// Returns the file that grants the permissions.
    pub(crate) const fn rbac_file(self) -> &'static str {
        match self {
            Self::Operator => "deploy/rbac/addon-operator.yaml",
            Self::Status => "deploy/rbac/addon-status.yaml",
            Self::Collector => "deploy/rbac/addon-collector.yaml",
            Self::Hop => "deploy/rbac/addon-hop.yaml",
        }
    }
}
