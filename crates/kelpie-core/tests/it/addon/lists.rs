//! The list of conditions after the components were aggregated.

use kelpie_core::addon::{Component, Condition, Forward, Stamp, Standard, Status};

use super::{at, condition, report, status};

const M: Component = Component::Platform;

fn settled(mut status: Status, seconds: i64) -> Status {
    status.settle(at(seconds));
    status
}

fn find<'a>(status: &'a Status, kind: &str) -> Vec<&'a Condition> {
    let conditions = status.conditions.iter();
    conditions
        .filter(|condition| condition.kind == kind)
        .collect()
}

#[test]
fn without_components_nothing_is_touched() {
    let mut foreign = Status::default();
    foreign
        .conditions
        .push(condition("Available", "LeaseUpdated"));
    foreign.conditions.push(condition("Available", "Twice"));
    assert_eq!(settled(foreign.clone(), 5), foreign);
}

#[test]
fn one_type_is_true_and_those_never_used_are_absent() {
    let status = settled(status("ForwardSuccessful", ""), 5);
    assert_eq!(status.standing(), Some(Standard::Available));
    assert_eq!(status.conditions.len(), 2);
    assert_eq!(
        find(&status, "Available")[0].last_transition_time,
        Stamp::at(at(5))
    );
}

#[test]
fn a_flip_moves_the_time_of_both_and_a_new_reason_moves_none() {
    let mut status = settled(status("ForwardSuccessful", ""), 1);
    status
        .report(&report(M, Forward::Failure, "503"), at(2))
        .unwrap();
    status.settle(at(3));
    assert_eq!(status.standing(), Some(Standard::Degraded));
    let time = |status: &Status, kind| find(status, kind)[0].last_transition_time.clone();
    assert_eq!(time(&status, "Available"), Stamp::at(at(3)));
    assert_eq!(time(&status, "Degraded"), Stamp::at(at(3)));
    assert_eq!(
        find(&status, "Available")[0].message,
        "the addon turned Degraded"
    );
    status
        .report(&report(M, Forward::Failure, "timeout"), at(4))
        .unwrap();
    status.settle(at(5));
    assert_eq!(
        time(&status, "Degraded"),
        Stamp::at(at(3)),
        "it was Degraded all along"
    );
    assert!(find(&status, "Degraded")[0].message.contains("timeout"));
    assert_eq!(time(&status, "Available"), Stamp::at(at(3)));
}

#[test]
fn settling_again_changes_nothing_however_often() {
    let once = settled(status("ForwardFailure", "UpdateSuccesful"), 1);
    for seconds in 2..100 {
        assert_eq!(settled(once.clone(), seconds), once);
    }
}

#[test]
fn duplicates_and_double_trues_are_healed_and_foreign_types_kept() {
    let mut broken = status("ForwardSuccessful", "");
    let older = condition("MetricsCollectorStatus", "UpdateFailure");
    let newer = Condition {
        last_transition_time: Stamp::at(at(1)),
        ..condition("MetricsCollectorStatus", "ForwardFailure")
    };
    broken.conditions.extend([
        older,
        newer,
        condition("Available", "ForwardSuccessful"),
        condition("Progressing", "UpdateSuccessful"),
        condition("Available", "ForwardSuccessful"),
        condition("Foreign", "Whatever"),
        condition("Foreign", "Other"),
    ]);
    for _ in 0..2 {
        let healed = settled(broken.clone(), 9);
        assert_eq!(healed.standing(), Some(Standard::Degraded));
        let mut kinds: Vec<_> = healed.conditions.iter().map(|c| c.kind.as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(
            kinds,
            [
                "Available",
                "Degraded",
                "Foreign",
                "MetricsCollectorStatus",
                "Progressing"
            ]
        );
        assert_eq!(
            healed.component(M).unwrap().reason,
            "ForwardFailure",
            "the newest counts"
        );
        assert_eq!(settled(healed.clone(), 10), healed);
        broken.conditions.reverse();
    }
}

#[test]
fn an_unknown_status_of_a_standard_condition_is_no_truth() {
    let mut unsure = settled(status("ForwardSuccessful", ""), 1);
    unsure.conditions[1].status = "Unknown".to_owned();
    assert_eq!(unsure.standing(), None);
    let sure = settled(unsure, 7);
    assert_eq!(sure.standing(), Some(Standard::Available));
    assert_eq!(
        find(&sure, "Available")[0].last_transition_time,
        Stamp::at(at(7))
    );
}

#[test]
fn a_status_is_read_and_written_as_the_api_server_keeps_it() {
    let text = r#"{"conditions":[{"type":"Available","status":"True","reason":"ForwardSuccessful",
        "message":"m","lastTransitionTime":"2023-11-14T22:13:20Z","observedGeneration":3}],
        "rollouts":{"platform":"a"}}"#;
    let status: Status = serde_json::from_str(text).unwrap();
    let written = serde_json::to_value(&status).unwrap();
    assert_eq!(
        written,
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
    let empty: Status = serde_json::from_str("{}").unwrap();
    assert_eq!(
        serde_json::to_string(&empty).unwrap(),
        r#"{"conditions":[]}"#
    );
}

#[test]
fn equal_conditions_may_differ_in_how_the_time_is_spelled_and_in_the_generation() {
    let one = condition("Available", "ForwardSuccessful");
    let mut other = one.clone();
    other.observed_generation = Some(4);
    assert!(one.is_same(&other));
    other.message = "new".to_owned();
    assert!(!one.is_same(&other));
}
