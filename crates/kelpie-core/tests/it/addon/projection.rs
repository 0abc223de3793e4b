//! The hub's own kind shows three of the five types.

use kelpie_core::addon::{Availability, Condition, Stamp, Status, project};

use super::{at, condition, status};

fn shown(status: &Status, availability: Availability) -> Vec<(String, String, String)> {
    let mut conditions = Vec::new();
    project(status, availability, &mut conditions, at(9));
    let told = |it: Condition| (it.kind, it.status, it.reason);
    conditions.into_iter().map(told).collect()
}

fn settled(reason: &str) -> Status {
    let mut status = status(reason, "");
    status.settle(at(1));
    status
}

#[test]
fn disabled_and_not_supported_show_as_degraded_with_their_reason() {
    for (reason, degraded, progressing, available) in [
        ("ForwardSuccessful", "False", "False", "True"),
        ("UpdateSuccessful", "False", "True", "False"),
        ("ForwardFailure", "True", "False", "False"),
        ("UpdateFailure", "True", "False", "False"),
        ("DisabledMetrics", "True", "False", "False"),
        ("NotSupported", "True", "False", "False"),
    ] {
        let row = |kind: &str, status: &str| (kind.into(), status.into(), reason.into());
        let expected = [row("Degraded", degraded), row("Progressing", progressing)];
        assert_eq!(shown(&settled(reason), Availability::OfTheHub), expected);
        let own = shown(&settled(reason), Availability::Ours);
        assert_eq!(own[..2], expected);
        assert_eq!(own[2], row("Available", available));
    }
}

#[test]
fn a_new_reason_is_shown_though_nothing_flips_and_what_others_say_stays() {
    let mut conditions = vec![condition("Available", "ManagedClusterAddOnLeaseUpdated")];
    project(
        &settled("ForwardFailure"),
        Availability::OfTheHub,
        &mut conditions,
        at(2),
    );
    project(
        &settled("UpdateFailure"),
        Availability::OfTheHub,
        &mut conditions,
        at(3),
    );
    assert_eq!(
        conditions[0],
        condition("Available", "ManagedClusterAddOnLeaseUpdated")
    );
    assert_eq!(conditions[1].reason, "UpdateFailure");
    assert_eq!(conditions[1].last_transition_time, Stamp::at(at(2)));
    let before = conditions.clone();
    project(
        &settled("UpdateFailure"),
        Availability::OfTheHub,
        &mut conditions,
        at(4),
    );
    assert_eq!(conditions, before);
}

#[test]
fn a_status_without_a_verdict_says_nothing_and_odd_reasons_are_unknown() {
    assert!(shown(&status("ForwardFailure", ""), Availability::Ours).is_empty());
    assert!(shown(&Status::default(), Availability::Ours).is_empty());
    let odd = shown(&settled("no word"), Availability::OfTheHub);
    assert_eq!(odd[0].2, "Unknown");
}
