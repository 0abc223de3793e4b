//! The subsystems of a probe that can fail independently of each other.

use kelpie_core::prober::Target;

/// A part of a round or of a flow that can fail on its own. Its problem is reported until it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subsystem {
    Kubeconfig,
    ApiServer,
    ExternalKubeconfig,
    External,
    Leases,
    Nodes,
    Guard,
    /// Reading a target, by its index in the configuration.
    Target(usize),
    /// Writing to a target, by its index in the configuration.
    Write(usize),
    /// Putting the record of a target on it, by the target's index in the configuration.
    Record(usize),
}

impl Subsystem {
    /// Returns whether the subsystem is the seed's, so that no tenant can cause its problems.
    pub(crate) fn is_seed(self) -> bool {
        match self {
            Self::Target(_) | Self::Write(_) | Self::Record(_) => true,
            Self::Kubeconfig
            | Self::ApiServer
            | Self::ExternalKubeconfig
            | Self::External
            | Self::Leases
            | Self::Nodes
            | Self::Guard => false,
        }
    }

    /// Returns the name of the subsystem; of a target its kind and name.
    pub(crate) fn name(self, targets: &[Target]) -> String {
        let name = match self {
            Self::Kubeconfig => "kubeconfig",
            Self::ApiServer => "API server",
            Self::ExternalKubeconfig => "external kubeconfig",
            Self::External => "external path",
            Self::Leases => "leases",
            Self::Nodes => "nodes",
            Self::Guard => "guard",
            Self::Target(index) | Self::Write(index) | Self::Record(index) => {
                return targets[index].resource.to_string();
            }
        };
        name.to_owned()
    }
}
