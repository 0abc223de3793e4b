//! What writers do to a component's condition.

use kelpie_core::addon::{Component, Forward, Reason, Refusal, Report, Stamp, Status, Update};

use super::{at, report, status, update};

const M: Component = Component::Platform;
const U: Component = Component::Uwl;

fn reason_of(status: &Status, component: Component) -> &str {
    &status.component(component).unwrap().reason
}

#[test]
fn the_first_word_of_a_component_makes_its_condition() {
    let mut status = Status::default();
    let word = report(M, Forward::Successful, "sent");
    status.report(&word, at(5)).unwrap();
    let condition = status.component(M).unwrap();
    assert_eq!(condition.kind, "MetricsCollectorStatus");
    assert_eq!(
        (condition.status.as_str(), condition.message.as_str()),
        ("True", "sent")
    );
    assert_eq!(condition.last_transition_time, Stamp::at(at(5)));
    assert!(status.component(U).is_none());
}

#[test]
fn the_same_again_changes_nothing_and_a_new_message_keeps_the_time() {
    let mut status = Status::default();
    status
        .report(&report(M, Forward::Failure, "503"), at(1))
        .unwrap();
    let before = status.clone();
    status
        .report(&report(M, Forward::Failure, "503"), at(2))
        .unwrap();
    assert_eq!(status, before);
    status
        .report(&report(M, Forward::Failure, "timeout"), at(3))
        .unwrap();
    let condition = status.component(M).unwrap();
    assert_eq!(condition.message, "timeout");
    assert_eq!(condition.last_transition_time, Stamp::at(at(1)));
    status
        .report(&report(M, Forward::Successful, "sent"), at(4))
        .unwrap();
    assert_eq!(
        status.component(M).unwrap().last_transition_time,
        Stamp::at(at(4))
    );
}

#[test]
fn an_old_spelling_is_not_corrected_for_its_own_sake() {
    let mut old = status("UpdateSuccesful", "Disabled");
    let before = old.clone();
    old.update(&update(M, Reason::UpdateSuccessful, ""), at(9))
        .unwrap();
    old.update(&update(U, Reason::DisabledMetrics, ""), at(9))
        .unwrap();
    assert_eq!(old, before);
    old.update(&update(U, Reason::DisabledMetrics, "off"), at(9))
        .unwrap();
    let condition = old.component(U).unwrap();
    assert_eq!(condition.reason, "DisabledMetrics");
    assert_eq!(
        condition.last_transition_time,
        Stamp::at(at(0)),
        "it is the same reason"
    );
}

#[test]
fn a_refused_write_leaves_everything_as_it_was() {
    for held in ["UpdateFailure", "DisabledMetrics", "NotSupported", "Foo"] {
        let mut status = status(held, "");
        let before = status.clone();
        let refused = status.report(&report(M, Forward::Successful, "sent"), at(9));
        let by = held.to_owned();
        assert_eq!(refused, Err(Refusal::Held { component: M, by }));
        assert_eq!(status, before);
    }
}

#[test]
fn an_update_is_announced_once_for_each_rollout() {
    let announce = |rollout: &str| Update {
        rollout: Some(rollout.to_owned()),
        ..update(M, Reason::UpdateSuccessful, "rolled out")
    };
    let mut status = Status::default();
    assert!(status.owes(M, Some("a")));
    status.update(&announce("a"), at(1)).unwrap();
    assert!(!status.owes(M, Some("a")));
    status
        .report(&report(M, Forward::Successful, "sent"), at(2))
        .unwrap();
    let again = status.update(&announce("a"), at(3));
    assert_eq!(again, Err(Refusal::NothingRolledOut { component: M }));
    assert_eq!(reason_of(&status, M), "ForwardSuccessful");
    status.update(&announce("b"), at(4)).unwrap();
    assert_eq!(reason_of(&status, M), "UpdateSuccessful");
    assert_eq!(status.rollouts["platform"], "b");
    let replaced = Update {
        replaced: true,
        ..announce("b")
    };
    status
        .report(&report(M, Forward::Successful, "sent"), at(5))
        .unwrap();
    status.update(&replaced, at(6)).unwrap();
    assert_eq!(
        reason_of(&status, M),
        "UpdateSuccessful",
        "somebody had changed the pods"
    );
}

#[test]
fn a_pod_of_an_older_rollout_is_not_heard() {
    let mut status = Status::default();
    let announce = Update {
        rollout: Some("new".to_owned()),
        ..update(M, Reason::UpdateSuccessful, "rolled out")
    };
    status.update(&announce, at(1)).unwrap();
    let of = |rollout: Option<&str>| Report {
        rollout: rollout.map(str::to_owned),
        ..report(M, Forward::Successful, "sent")
    };
    let refused = status.report(&of(Some("old")), at(2)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the report is from a pod of rollout old, and new is the one that was announced last"
    );
    assert_eq!(reason_of(&status, M), "UpdateSuccessful");
    status
        .report(&of(None), at(3))
        .expect("an older collector knows no rollouts");
    status.report(&of(Some("new")), at(4)).unwrap();
    assert_eq!(reason_of(&status, M), "ForwardSuccessful");
}

#[test]
fn a_failed_update_is_no_announcement() {
    let mut status = Status::default();
    let failed = Update {
        rollout: Some("a".to_owned()),
        ..update(M, Reason::UpdateFailure, "forbidden")
    };
    status.update(&failed, at(1)).unwrap();
    assert!(status.owes(M, Some("a")));
}

#[test]
fn a_component_that_is_gone_leaves_nothing_behind() {
    let mut both = status("ForwardSuccessful", "ForwardFailure");
    both.rollouts.insert("uwl".to_owned(), "a".to_owned());
    both.forget(U);
    assert_eq!(both, status("ForwardSuccessful", ""));
}
