//! Who may change which reason into which.

use std::fmt;

use super::{Component, Reason};

/// Who writes a component's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// Deploys both collectors.
    Operator {
        /// The pods of this component are replaced in this pass.
        rolls_out: bool,
    },
    /// Speaks for itself.
    Collector(Component),
}

/// Why nothing was written. It is an answer, not a failure: the writer goes on with its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A collector spoke for another component.
    OtherComponent {
        /// The collector's own.
        own: Component,
        /// The one it spoke for.
        other: Component,
    },
    /// The reason is not this writer's to give.
    OtherWriter {
        /// Who wanted to write it.
        actor: Actor,
        /// What it wanted to write.
        reason: Reason,
    },
    /// The operator has said something that only the operator can take back.
    Held {
        /// Whose condition.
        component: Component,
        /// Its reason.
        by: String,
    },
    /// What the collector says of itself is newer than the last rollout.
    NothingRolledOut {
        /// Whose condition.
        component: Component,
    },
    /// The reporting pod belongs to another rollout.
    OtherRollout {
        /// Of the pod.
        reported: String,
        /// The one that was last announced.
        announced: String,
    },
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { .. } => f.write_str("operator"),
            Self::Collector(component) => component.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherComponent { own, other } => {
                write!(f, "the {own} may not speak for the {other}")
            }
            Self::OtherWriter { actor, reason } => {
                write!(f, "{reason} is not for the {actor} to say")
            }
            Self::Held { component, by } => write!(
                f,
                "the {component} is held at {by}: the operator has to announce an update first"
            ),
            Self::NothingRolledOut { component } => write!(
                f,
                "the {component} has reported since its last rollout, and nothing was rolled out \
                 since"
            ),
            Self::OtherRollout {
                reported,
                announced,
            } => write!(
                f,
                "the report is from a pod of rollout {reported}, and {announced} is the one that \
                 was announced last"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Whether `actor` may make `to` of the condition that `component` has now, if it has one.
pub fn transition(
    component: Component,
    from: Option<(Reason, &str)>,
    actor: Actor,
    to: Reason,
) -> Result<(), Refusal> {
    use Reason::{ForwardFailure, ForwardSuccessful, UpdateSuccessful};
    let other_writer = Refusal::OtherWriter { actor, reason: to };
    match (actor, to) {
        (Actor::Collector(own), ForwardSuccessful | ForwardFailure) => {
            if own != component {
                let other = component;
                return Err(Refusal::OtherComponent { own, other });
            }
            match from {
                None | Some((UpdateSuccessful | ForwardSuccessful | ForwardFailure, _)) => Ok(()),
                Some((_, written)) => Err(Refusal::Held {
                    component,
                    by: written.to_owned(),
                }),
            }
        }
        (Actor::Operator { rolls_out }, UpdateSuccessful) => match from {
            Some((ForwardSuccessful | ForwardFailure, _)) if !rolls_out => {
                Err(Refusal::NothingRolledOut { component })
            }
            _ => Ok(()),
        },
        (
            Actor::Operator { .. },
            Reason::UpdateFailure | Reason::DisabledMetrics | Reason::NotSupported,
        ) => Ok(()),
        (
            Actor::Collector(_) | Actor::Operator { .. },
            ForwardSuccessful
            | ForwardFailure
            | UpdateSuccessful
            | Reason::UpdateFailure
            | Reason::DisabledMetrics
            | Reason::NotSupported
            | Reason::Unknown,
        ) => Err(other_writer),
    }
}
