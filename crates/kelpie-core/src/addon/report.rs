//! What the writers have to say.

use super::{Component, Reason};

/// How forwarding went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// It works.
    Successful,
    /// It has failed for a while.
    Failure,
}

impl Forward {
    /// The reason to be written.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Successful => Reason::ForwardSuccessful,
            Self::Failure => Reason::ForwardFailure,
        }
    }
}

/// A collector's word about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which collector.
    pub component: Component,
    /// How forwarding went.
    pub forward: Forward,
    /// For people.
    pub message: String,
    /// The rollout that the reporting pod belongs to; `None`: a collector that knows nothing of
    /// rollouts.
    pub rollout: Option<String>,
}

/// The operator's word about a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Which collector.
    pub component: Component,
    /// What became of it.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// With `UpdateSuccessful`: the hash of the pod template that is wanted.
    pub rollout: Option<String>,
    /// The pods are being replaced though the wanted template is the old one: somebody had changed it.
    pub replaced: bool,
}
