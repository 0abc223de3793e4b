//! The conditions of a `ManagedClusterAddOn`, the hub's kind for any add-on of a cluster. It has
//! fewer condition types than the addon's own status.

use super::message::sanitize;
use super::{AddonStatus, Condition, ConditionReason, StandardCondition, TransitionTime};
use crate::Time;

/// The writer of the condition Available on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailableOwner {
    /// The hub itself, which derives it from the lease of the spoke.
    Hub,
    /// The addon, which reports its own health.
    Addon,
}

/// Updates the conditions of a `ManagedClusterAddOn` from the addon's status. Does nothing if no
/// standard condition of the status is True.
pub fn project_to_managed_addon(
    status: &AddonStatus,
    available_owner: AvailableOwner,
    conditions: &mut Vec<Condition>,
    now: Time,
) {
    let Some((standard, source)) = status.true_condition() else {
        return;
    };
    let shown = match standard {
        // The hub's kind has no types for these.
        StandardCondition::Disabled | StandardCondition::NotSupported => {
            StandardCondition::Degraded
        }
        other => other,
    };
    let mut targets = vec![StandardCondition::Degraded, StandardCondition::Progressing];
    if available_owner == AvailableOwner::Addon {
        targets.push(StandardCondition::Available);
    }
    for target in targets {
        let condition = Condition::entry(conditions, target.condition_type());
        if condition.set_status(target == shown) {
            condition.last_transition_time = TransitionTime::at(now);
        }
        condition.reason = valid_reason(&source.reason);
        condition.message = sanitize(&source.message);
    }
}

/// Returns the reason if the hub's schema accepts it, and `Unknown` otherwise. The schema allows
/// letters, digits and underscores only.
fn valid_reason(reason: &str) -> String {
    let starts_with_letter = reason.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if starts_with_letter && reason.len() <= 1024 && reason.chars().all(is_allowed) {
        reason.to_owned()
    } else {
        ConditionReason::Unknown.as_str().to_owned()
    }
}
