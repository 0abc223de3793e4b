//! The transitions between reasons that each writer may make.

use std::fmt;

use super::{AddonComponent, ConditionReason};

/// A writer of a component's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusActor {
    /// The operator, which deploys both collectors.
    Operator {
        /// The operator is replacing the pods of this component.
        rolls_out: bool,
    },
    /// A collector, which reports about itself.
    Collector(AddonComponent),
}

/// The reason why a write was refused. It is not a failure: the writer continues its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionError {
    /// A collector reported about the other component.
    OtherComponent {
        /// The component of the collector.
        own: AddonComponent,
        /// The component that it reported about.
        other: AddonComponent,
    },
    /// Only another writer may set this reason.
    ReasonNotAllowed {
        /// The writer that was refused.
        actor: StatusActor,
        /// The reason that it tried to set.
        reason: ConditionReason,
    },
    /// Only the operator may replace the current reason.
    Held {
        /// The component that the collector reported about.
        component: AddonComponent,
        /// The current reason, as spelled in the condition.
        reason: String,
    },
    /// The collector has reported since the last rollout, which must not be announced again.
    NothingRolledOut {
        /// The component that the operator tried to update.
        component: AddonComponent,
    },
    /// The reporting pod belongs to another rollout than the one that was announced last.
    RolloutMismatch {
        /// The rollout of the pod.
        reported: String,
        /// The rollout that was announced last.
        announced: String,
    },
}

impl fmt::Display for StatusActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { .. } => f.write_str("operator"),
            Self::Collector(component) => component.fmt(f),
        }
    }
}

impl fmt::Display for TransitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherComponent { own, other } => {
                write!(f, "the {own} may not report for the {other}")
            }
            Self::ReasonNotAllowed { actor, reason } => {
                write!(f, "the {actor} may not set {reason}")
            }
            Self::Held { component, reason } => write!(
                f,
                "the {component} is held at {reason} until the operator announces an update"
            ),
            Self::NothingRolledOut { component } => write!(
                f,
                "the {component} has reported since its last rollout, and nothing was rolled out \
                 since"
            ),
            Self::RolloutMismatch {
                reported,
                announced,
            } => write!(
                f,
                "the report comes from a pod of rollout {reported}, but the last announced rollout \
                 is {announced}"
            ),
        }
    }
}

impl std::error::Error for TransitionError {}

/// Checks that `actor` may set the reason of `component` to `to`. `from` is the current reason,
/// parsed and as spelled in the condition; `None` means that there is no condition yet.
pub fn check_transition(
    component: AddonComponent,
    from: Option<(ConditionReason, &str)>,
    actor: StatusActor,
    to: ConditionReason,
) -> Result<(), TransitionError> {
    use ConditionReason::{ForwardFailure, ForwardSuccessful, UpdateSuccessful};
    let not_allowed = TransitionError::ReasonNotAllowed { actor, reason: to };
    match (actor, to) {
        (StatusActor::Collector(own), ForwardSuccessful | ForwardFailure) => {
            if own != component {
                let other = component;
                return Err(TransitionError::OtherComponent { own, other });
            }
            match from {
                None | Some((UpdateSuccessful | ForwardSuccessful | ForwardFailure, _)) => Ok(()),
                Some((_, spelling)) => Err(TransitionError::Held {
                    component,
                    reason: spelling.to_owned(),
                }),
            }
        }
        (StatusActor::Operator { rolls_out }, UpdateSuccessful) => match from {
            Some((ForwardSuccessful | ForwardFailure, _)) if !rolls_out => {
                Err(TransitionError::NothingRolledOut { component })
            }
            _ => Ok(()),
        },
        (
            StatusActor::Operator { .. },
            ConditionReason::UpdateFailure
            | ConditionReason::DisabledMetrics
            | ConditionReason::NotSupported,
        ) => Ok(()),
        (
            StatusActor::Collector(_) | StatusActor::Operator { .. },
            ForwardSuccessful
            | ForwardFailure
            | UpdateSuccessful
            | ConditionReason::UpdateFailure
            | ConditionReason::DisabledMetrics
            | ConditionReason::NotSupported
            | ConditionReason::Unknown,
        ) => Err(not_allowed),
    }
}
