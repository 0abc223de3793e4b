//! One verdict from two components.

use super::message::tidy;
use super::{Component, Condition, Reason, Standard};

/// What the components make of the addon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The type that is True.
    pub standard: Standard,
    /// The reason that won, as its condition spells it if it is unknown here.
    pub reason: String,
    /// Each component and its state.
    pub message: String,
}

/// Total, whatever the conditions are; `None` where there is no component.
pub fn aggregate(platform: Option<&Condition>, uwl: Option<&Condition>) -> Option<Aggregate> {
    let winner = worst(platform.map(Condition::reason), uwl.map(Condition::reason))?;
    let parts = [(Component::Platform, platform), (Component::Uwl, uwl)];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(component, condition)| Some(state(component, condition?)))
        .collect();
    let spelled = match winner {
        Reason::Unknown => spelling(platform, uwl),
        known => known.name().to_owned(),
    };
    Some(Aggregate {
        standard: winner.standard(),
        reason: spelled,
        message: parts.join("; "),
    })
}

/// The reason that decides. The first rule that matches wins.
fn worst(platform: Option<Reason>, uwl: Option<Reason>) -> Option<Reason> {
    let own = match (platform, uwl) {
        (None, None) => return None,
        (Some(Reason::NotSupported | Reason::DisabledMetrics), _) => return platform,
        (own, _) => own.unwrap_or(Reason::UpdateSuccessful),
    };
    let other = match uwl {
        // Optional: its absence is nobody's fault.
        None | Some(Reason::NotSupported | Reason::DisabledMetrics) => return Some(own),
        Some(other) => other,
    };
    // The order of reasons is the order of gravity.
    Some(own.max(other))
}

/// How the unknown reason is spelled; of two the first in the alphabet, so that it does not matter
/// whose it is.
fn spelling(platform: Option<&Condition>, uwl: Option<&Condition>) -> String {
    let conditions = platform.into_iter().chain(uwl);
    let unknown = conditions.filter(|condition| condition.reason() == Reason::Unknown);
    let spelled = unknown.map(|condition| condition.reason.as_str()).min();
    match spelled {
        Some(spelled) if !spelled.is_empty() => spelled.to_owned(),
        _ => Reason::Unknown.name().to_owned(),
    }
}

fn state(component: Component, condition: &Condition) -> String {
    let reason = match condition.reason() {
        Reason::Unknown => condition.reason.as_str(),
        known => known.name(),
    };
    let message = tidy(&condition.message);
    if message.is_empty() {
        format!("{component}: {reason}")
    } else {
        format!("{component}: {reason} ({message})")
    }
}
