//! The addon's status: who may write what, and what comes of it.

mod aggregation;
mod lists;
mod projection;
mod promises;
mod reports;
mod transitions;

use kelpie_core::Time;
use kelpie_core::addon::{Component, Condition, Forward, Reason, Report, Stamp, Status, Update};

fn at(seconds: i64) -> Time {
    Time::from_unix(1_700_000_000 + seconds, 0)
}

/// A condition that has been as it is since the beginning.
fn condition(kind: &str, reason: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Stamp::at(at(0)),
        observed_generation: None,
    }
}

/// A status with these reasons; an empty one stands for no condition.
fn status(platform: &str, uwl: &str) -> Status {
    let reasons = [(Component::Platform, platform), (Component::Uwl, uwl)];
    let reasons = reasons.into_iter().filter(|(_, reason)| !reason.is_empty());
    Status {
        conditions: reasons
            .map(|(component, reason)| condition(component.condition(), reason))
            .collect(),
        ..Status::default()
    }
}

fn report(component: Component, forward: Forward, message: &str) -> Report {
    Report {
        component,
        forward,
        message: message.to_owned(),
        rollout: None,
    }
}

fn update(component: Component, reason: Reason, message: &str) -> Update {
    Update {
        component,
        reason,
        message: message.to_owned(),
        rollout: None,
        replaced: false,
    }
}
