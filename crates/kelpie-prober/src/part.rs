//! What a probe has that may be in trouble.

use std::fmt;

use kelpie_core::Target;

/// A part of a round or of a flow that may be in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The kubeconfig in its Secret.
    Kubeconfig,
    /// The API-server probe.
    ApiServer,
    /// The kubeconfig of the external path.
    ExternalKubeconfig,
    /// The probe over the external path.
    External,
    /// The list of leases.
    Leases,
    /// The list of nodes.
    Nodes,
    /// Looking at a target, by its place in the configuration.
    Target(usize),
    /// Writing to it.
    Write(usize),
}

impl fmt::Display for Part {
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

/// A part as people call it.
pub(crate) struct Named<'a>(pub(crate) Part, pub(crate) &'a [Target]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Part::Target(index) | Part::Write(index) if index < self.1.len() => {
                self.1[index].resource.fmt(f)
            }
            part => part.fmt(f),
        }
    }
}
