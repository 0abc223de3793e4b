//! Inputs of the components' conditions: reports of collectors and updates of the operator.

use super::{AddonComponent, ConditionReason};

/// The state of forwarding that a collector reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardOutcome {
    /// Metrics reach the hub.
    Successful,
    /// Forwarding has failed for a while, see [`Debounce`](super::Debounce).
    Failure,
}

impl ForwardOutcome {
    /// Returns the reason of the component's condition.
    pub const fn reason(self) -> ConditionReason {
        match self {
            Self::Successful => ConditionReason::ForwardSuccessful,
            Self::Failure => ConditionReason::ForwardFailure,
        }
    }
}

/// A collector's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorReport {
    /// The collector that reports.
    pub component: AddonComponent,
    /// The state of forwarding.
    pub forward: ForwardOutcome,
    /// The message of the condition.
    pub message: String,
    /// The rollout of the reporting pod. `None` means a collector that does not know rollouts.
    pub rollout: Option<String>,
}

/// The operator's update about a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorUpdate {
    /// The collector that was deployed, or could not be.
    pub component: AddonComponent,
    /// The result of the deployment.
    pub reason: ConditionReason,
    /// The message of the condition.
    pub message: String,
    /// With `UpdateSuccessful`: the hash of the desired pod template.
    pub rollout: Option<String>,
    /// The pods are being replaced although the desired template is unchanged, because another
    /// client had modified the Deployment.
    pub replaced: bool,
}
