//! Aggregation: the conditions of both components become one standard condition.

use super::message::sanitize;
use super::{AddonComponent, Condition, ConditionReason, StandardCondition};

/// The result of an aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The standard condition that has to be True.
    pub standard: StandardCondition,
    /// The decisive reason. An unknown reason is spelled as in its condition.
    pub reason: String,
    /// The state of each component, for people.
    pub message: String,
}

/// Aggregates the conditions of both components. Returns `None` if neither has a condition. Any
/// combination of conditions has a result, and their order in the status does not matter.
pub(super) fn aggregate(
    platform: Option<&Condition>,
    uwl: Option<&Condition>,
) -> Option<Aggregate> {
    let winner = worst(platform.map(Condition::reason), uwl.map(Condition::reason))?;
    let states = [
        (AddonComponent::Platform, platform),
        (AddonComponent::Uwl, uwl),
    ];
    let states: Vec<String> = states
        .into_iter()
        .filter_map(|(component, condition)| Some(describe(component, condition?)))
        .collect();
    let reason = match winner {
        ConditionReason::Unknown => unknown_spelling(platform, uwl),
        known => known.as_str().to_owned(),
    };
    Some(Aggregate {
        standard: winner.standard_condition(),
        reason,
        message: states.join("; "),
    })
}

/// Returns the decisive reason. The first rule that matches wins.
fn worst(
    platform: Option<ConditionReason>,
    uwl: Option<ConditionReason>,
) -> Option<ConditionReason> {
    use ConditionReason::{DisabledMetrics, NotSupported, UpdateSuccessful};
    let platform_reason = match (platform, uwl) {
        (None, None) => return None,
        (Some(NotSupported | DisabledMetrics), _) => return platform,
        (reason, _) => reason.unwrap_or(UpdateSuccessful),
    };
    let uwl_reason = match uwl {
        // The user-workload collector is optional: without it, the platform collector decides.
        None | Some(NotSupported | DisabledMetrics) => return Some(platform_reason),
        Some(reason) => reason,
    };
    // Reasons are ordered by severity.
    Some(platform_reason.max(uwl_reason))
}

/// Returns the spelling of the unknown reason. If both components have one, the alphabetically
/// first is used, so that swapping the components changes nothing.
fn unknown_spelling(platform: Option<&Condition>, uwl: Option<&Condition>) -> String {
    let conditions = platform.into_iter().chain(uwl);
    let unknown = conditions.filter(|condition| condition.reason() == ConditionReason::Unknown);
    let spelling = unknown.map(|condition| condition.reason.as_str()).min();
    match spelling {
        Some(spelling) if !spelling.is_empty() => spelling.to_owned(),
        _ => ConditionReason::Unknown.as_str().to_owned(),
    }
}

fn describe(component: AddonComponent, condition: &Condition) -> String {
    let reason = match condition.reason() {
        ConditionReason::Unknown => condition.reason.as_str(),
        known => known.as_str(),
    };
    let message = sanitize(&condition.message);
    if message.is_empty() {
        format!("{component}: {reason}")
    } else {
        format!("{component}: {reason} ({message})")
    }
}
