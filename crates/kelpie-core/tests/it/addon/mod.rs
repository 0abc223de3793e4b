//! The status of the observability addon.

mod aggregation;
mod component_conditions;
mod managed_addon;
mod standard_conditions;
mod status_properties;
mod transitions;

use kelpie_core::Time;
use kelpie_core::addon::{
    AddonComponent, AddonStatus, CollectorReport, Condition, ConditionReason, ForwardOutcome,
    OperatorUpdate, TransitionTime,
};

fn at(seconds: i64) -> Time {
    Time::from_unix(1_700_000_000 + seconds, 0)
}

/// A condition that is True since time zero.
fn condition(condition_type: &str, reason: &str) -> Condition {
    Condition {
        type_: condition_type.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: TransitionTime::at(at(0)),
        observed_generation: None,
    }
}

/// A status with these reasons. An empty reason stands for no condition.
fn status(platform: &str, uwl: &str) -> AddonStatus {
    let reasons = [
        (AddonComponent::Platform, platform),
        (AddonComponent::Uwl, uwl),
    ];
    let reasons = reasons.into_iter().filter(|(_, reason)| !reason.is_empty());
    AddonStatus {
        conditions: reasons
            .map(|(component, reason)| condition(component.condition_type(), reason))
            .collect(),
        ..AddonStatus::default()
    }
}

fn report(component: AddonComponent, forward: ForwardOutcome, message: &str) -> CollectorReport {
    CollectorReport {
        component,
        forward,
        message: message.to_owned(),
        rollout: None,
    }
}

fn update(component: AddonComponent, reason: ConditionReason, message: &str) -> OperatorUpdate {
    OperatorUpdate {
        component,
        reason,
        message: message.to_owned(),
        rollout: None,
        replaced: false,
    }
}
