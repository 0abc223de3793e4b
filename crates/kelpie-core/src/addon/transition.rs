//! The transitions between reasons that each writer may make.

use thiserror::Error;

use super::{AddonComponent, ConditionReason};

/// A writer of a component's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusActor {
    /// The operator, which deploys both collectors.
    Operator {
        /// The operator is replacing the pods of this component.
        rolls_out: bool,
    },
    /// The collector, which reports about itself.
    Collector,
}

/// The reason why a write was refused. It is not a failure: the writer continues its work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransitionError {
    /// Only another writer may set this reason.
    #[error("the {writer} may not set {reason}")]
    ReasonNotAllowed {
        /// The writer that was refused.
        writer: String,
        /// The reason that it tried to set.
        reason: ConditionReason,
    },
    /// Only the operator may replace the current reason.
    #[error("the {component} is held at {reason} until the operator announces an update")]
    Held {
        /// The component that the collector reported about.
        component: AddonComponent,
        /// The current reason, as spelled in the condition.
        reason: String,
    },
    /// The collector has reported since the last rollout, which must not be announced again.
    #[error(
        "the {component} has reported since its last rollout, and nothing was rolled out since"
    )]
    NothingRolledOut {
        /// The component that the operator tried to update.
        component: AddonComponent,
    },
    /// The reporting pod belongs to another rollout than the one that was announced last.
    #[error(
        "the report comes from a pod of rollout {reported}, but the last announced rollout is \
         {announced}"
    )]
    RolloutMismatch {
        /// The rollout of the pod.
        reported: String,
        /// The rollout that was announced last.
        announced: String,
    },
}

/// Checks that `actor` may set the reason of `component` to `to`. `from` is the current reason,
/// parsed and as spelled in the condition; `None` means that there is no condition yet.
pub fn check_transition(
    component: AddonComponent,
    from: Option<(ConditionReason, &str)>,
    actor: StatusActor,
    to: ConditionReason,
) -> Result<(), TransitionError> {
    use ConditionReason::{
        DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure,
        UpdateSuccessful,
    };
    match (actor, to) {
        (StatusActor::Collector, ForwardSuccessful | ForwardFailure) => match from {
            None | Some((UpdateSuccessful | ForwardSuccessful | ForwardFailure, _)) => Ok(()),
            Some((_, spelling)) => Err(TransitionError::Held {
                component,
                reason: spelling.to_owned(),
            }),
        },
        (StatusActor::Operator { rolls_out }, UpdateSuccessful) => match from {
            Some((ForwardSuccessful | ForwardFailure, _)) if !rolls_out => {
                Err(TransitionError::NothingRolledOut { component })
            }
            _ => Ok(()),
        },
        (StatusActor::Operator { .. }, UpdateFailure | DisabledMetrics | NotSupported) => Ok(()),
        _ => Err(TransitionError::ReasonNotAllowed {
            writer: match actor {
                StatusActor::Operator { .. } => "operator".to_owned(),
                StatusActor::Collector => component.to_string(),
            },
            reason: to,
        }),
    }
}
