//! The parts of the addon, and what each must be allowed to do where it runs.

use clap::ValueEnum;
use kelpie_addon::{
    AddonRef, OperatorOptions, collector_needs, hop_needs, operator_needs, status_needs,
};
use kelpie_kube::seed::Need;

use super::server::election;
use super::{hop, operator, status};

/// Which part of the addon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Deploys the collectors
    Operator,
    /// Aggregates, and replicates to the hub
    Status,
    /// Forwards metrics
    Collector,
    /// Shows every cluster's addon on the hub
    Hop,
}

impl Part {
    /// Where it runs; `elects`: there is a leader to be elected.
    pub(crate) fn needs(
        self,
        addon: &AddonRef,
        options: &OperatorOptions,
        elects: bool,
    ) -> Vec<Need> {
        let elected = |lease: &str| elects.then(|| election(addon, lease));
        match self {
            Self::Operator => operator_needs(addon, options, elected(operator::LEASE).as_ref()),
            Self::Status => status_needs(addon, elected(status::LEASE).as_ref()),
            Self::Collector => collector_needs(addon),
            Self::Hop => hop_needs(elected(hop::LEASE).as_ref()),
        }
    }

    /// Where the permissions come from.
    pub(crate) const fn rbac(self) -> &'static str {
        match self {
            Self::Operator => "deploy/rbac/addon-operator.yaml",
            Self::Status => "deploy/rbac/addon-status.yaml",
            Self::Collector => "deploy/rbac/addon-collector.yaml",
            Self::Hop => "deploy/rbac/addon-hop.yaml",
        }
    }
}
