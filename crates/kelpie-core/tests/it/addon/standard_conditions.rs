//! The list of conditions after aggregation.

use kelpie_core::addon::{
    AddonComponent, AddonStatus, Condition, ForwardOutcome, StandardCondition, TransitionTime,
};

use super::{at, condition, report, status};

const M: AddonComponent = AddonComponent::Platform;

fn aggregated(mut status: AddonStatus, seconds: i64) -> AddonStatus {
    status.set_standard_conditions(at(seconds));
    status
}

fn find<'a>(status: &'a AddonStatus, condition_type: &str) -> Vec<&'a Condition> {
    let conditions = status.conditions.iter();
    conditions
        .filter(|condition| condition.type_ == condition_type)
        .collect()
}

#[test]
fn without_components_nothing_changes() {
    let mut foreign = AddonStatus::default();
    foreign
        .conditions
        .push(condition("Available", "LeaseUpdated"));
    foreign.conditions.push(condition("Available", "Twice"));
    assert_eq!(aggregated(foreign.clone(), 5), foreign);
}

#[test]
fn only_types_ever_true_are_present() {
    let status = aggregated(status("ForwardSuccessful", ""), 5);
    assert_eq!(
        status.standard_condition(),
        Some(StandardCondition::Available)
    );
    assert_eq!(status.conditions.len(), 2);
    assert_eq!(
        find(&status, "Available")[0].last_transition_time,
        TransitionTime::at(at(5))
    );
}

#[test]
fn transition_time_moves_only_on_flips() {
    let mut status = aggregated(status("ForwardSuccessful", ""), 1);
    status
        .apply_report(&report(M, ForwardOutcome::Failure, "503"), at(2))
        .unwrap();
    status.set_standard_conditions(at(3));
    assert_eq!(
        status.standard_condition(),
        Some(StandardCondition::Degraded)
    );
    let time = |status: &AddonStatus, condition_type| {
        find(status, condition_type)[0].last_transition_time.clone()
    };
    assert_eq!(time(&status, "Available"), TransitionTime::at(at(3)));
    assert_eq!(time(&status, "Degraded"), TransitionTime::at(at(3)));
    assert_eq!(
        find(&status, "Available")[0].message,
        "the addon turned Degraded"
    );
    status
        .apply_report(&report(M, ForwardOutcome::Failure, "timeout"), at(4))
        .unwrap();
    status.set_standard_conditions(at(5));
    assert_eq!(
        time(&status, "Degraded"),
        TransitionTime::at(at(3)),
        "the condition did not flip"
    );
    assert!(find(&status, "Degraded")[0].message.contains("timeout"));
    assert_eq!(time(&status, "Available"), TransitionTime::at(at(3)));
}

#[test]
fn repeated_aggregation_changes_nothing() {
    let once = aggregated(status("ForwardFailure", "UpdateSuccesful"), 1);
    for seconds in 2..100 {
        assert_eq!(aggregated(once.clone(), seconds), once);
    }
}

#[test]
fn duplicates_are_removed_and_foreign_types_kept() {
    let mut broken = status("ForwardSuccessful", "");
    let older = condition("MetricsCollectorStatus", "UpdateFailure");
    let newer = Condition {
        last_transition_time: TransitionTime::at(at(1)),
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
        let repaired = aggregated(broken.clone(), 9);
        assert_eq!(
            repaired.standard_condition(),
            Some(StandardCondition::Degraded)
        );
        let mut types: Vec<_> = repaired
            .conditions
            .iter()
            .map(|c| c.type_.as_str())
            .collect();
        types.sort_unstable();
        assert_eq!(
            types,
            [
                "Available",
                "Degraded",
                "Foreign",
                "MetricsCollectorStatus",
                "Progressing"
            ]
        );
        assert_eq!(
            repaired.component(M).unwrap().reason,
            "ForwardFailure",
            "the newest counts"
        );
        assert_eq!(aggregated(repaired.clone(), 10), repaired);
        broken.conditions.reverse();
    }
}

#[test]
fn unknown_status_is_not_true() {
    let mut unknown = aggregated(status("ForwardSuccessful", ""), 1);
    unknown.conditions[1].status = "Unknown".to_owned();
    assert_eq!(unknown.standard_condition(), None);
    let repaired = aggregated(unknown, 7);
    assert_eq!(
        repaired.standard_condition(),
        Some(StandardCondition::Available)
    );
    assert_eq!(
        find(&repaired, "Available")[0].last_transition_time,
        TransitionTime::at(at(7))
    );
}

#[test]
fn status_round_trips_through_json() {
    let text = r#"{"conditions":[{"type":"Available","status":"True","reason":"ForwardSuccessful",
        "message":"m","lastTransitionTime":"2023-11-14T22:13:20Z","observedGeneration":3}],
        "rollouts":{"platform":"a"}}"#;
    let status: AddonStatus = serde_json::from_str(text).unwrap();
    let written = serde_json::to_value(&status).unwrap();
    assert_eq!(
        written,
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
    let empty: AddonStatus = serde_json::from_str("{}").unwrap();
    assert_eq!(
        serde_json::to_string(&empty).unwrap(),
        r#"{"conditions":[]}"#
    );
}

#[test]
fn equivalence_ignores_observed_generation() {
    let one = condition("Available", "ForwardSuccessful");
    let mut other = one.clone();
    other.observed_generation = Some(4);
    assert!(one.is_equivalent(&other));
    other.message = "new".to_owned();
    assert!(!one.is_equivalent(&other));
}
