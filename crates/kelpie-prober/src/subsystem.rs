//! The subsystems of a probe that can fail independently of each other.

use std::fmt;

use kelpie_core::prober::Target;

/// A part of a round or of a flow that can fail on its own. Its problem is reported until it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subsystem {
    /// The kubeconfig from the Secret.
    Kubeconfig,
    /// The API-server probe.
    ApiServer,
    /// The kubeconfig for the external path.
    ExternalKubeconfig,
    /// The probe over the external path.
    External,
    /// The list of leases.
    Leases,
    /// The list of nodes.
    Nodes,
    /// Reading a target, by its index in the configuration.
    Target(usize),
    /// Writing to a target, by its index in the configuration.
    Write(usize),
}

impl fmt::Display for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig => f.write_str("kubeconfig"),
            Self::ApiServer => f.write_str("API server"),
            Self::ExternalKubeconfig => f.write_str("external kubeconfig"),
            Self::External => f.write_str("external path"),
            Self::Leases => f.write_str("leases"),
            Self::Nodes => f.write_str("nodes"),
            Self::Target(index) | Self::Write(index) => write!(f, "target {index}"),
        }
    }
}

/// Displays a subsystem; a target by its kind and name.
pub(crate) struct SubsystemName<'a>(pub(crate) Subsystem, pub(crate) &'a [Target]);

impl fmt::Display for SubsystemName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Subsystem::Target(index) | Subsystem::Write(index) if index < self.1.len() => {
                self.1[index].resource.fmt(f)
            }
            subsystem => subsystem.fmt(f),
        }
    }
}
