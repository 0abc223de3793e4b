//! The addon as the hub's own kind shows it, which knows fewer types.

use super::message::tidy;
use super::{Condition, Reason, Stamp, Standard, Status};
use crate::Time;

/// Who says on the hub whether an add-on is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The hub itself, by the lease of the spoke.
    OfTheHub,
    /// Whoever reports the add-on's health: us.
    Ours,
}

/// Makes the conditions of a `ManagedClusterAddOn` say what the addon's status says. A status in
/// which no standard condition holds has nothing to say.
pub fn project(
    status: &Status,
    availability: Availability,
    conditions: &mut Vec<Condition>,
    now: Time,
) {
    let Some(standing) = status.standing() else {
        return;
    };
    let mut holding = status.conditions.iter();
    let holding = holding.find(|it| it.kind == standing.condition() && it.is_true());
    let Some(holding) = holding else { return };
    // What cannot or should not work is Degraded to who knows no better word.
    let is_degraded = matches!(
        standing,
        Standard::Degraded | Standard::Disabled | Standard::NotSupported
    );
    let mut shown = vec![
        (Standard::Degraded, is_degraded),
        (Standard::Progressing, standing == Standard::Progressing),
    ];
    if availability == Availability::Ours {
        shown.push((Standard::Available, standing == Standard::Available));
    }
    for (standard, holds) in shown {
        let kind = standard.condition();
        let place = conditions.iter().position(|it| it.kind == kind);
        let place = place.unwrap_or_else(|| {
            conditions.push(Condition::new(kind));
            conditions.len() - 1
        });
        let condition = &mut conditions[place];
        if condition.flip(holds) {
            condition.last_transition_time = Stamp::at(now);
        }
        condition.reason = word(&holding.reason);
        condition.message = tidy(&holding.message);
    }
}

/// The hub takes words of letters and digits only.
fn word(reason: &str) -> String {
    let begins = reason.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if begins && reason.len() <= 1024 && reason.chars().all(is_word) {
        reason.to_owned()
    } else {
        Reason::Unknown.name().to_owned()
    }
}
