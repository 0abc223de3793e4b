//! Writes to a component's condition.

use kelpie_core::addon::{
    AddonComponent, AddonStatus, CollectorReport, ConditionReason, ForwardOutcome, OperatorUpdate,
    StandardCondition, TransitionError, TransitionTime,
};

use super::{at, condition, report, status, update};

const M: AddonComponent = AddonComponent::Platform;
const U: AddonComponent = AddonComponent::Uwl;

fn reason_of(status: &AddonStatus, component: AddonComponent) -> &str {
    &status.component(component).unwrap().reason
}

#[test]
fn first_report_creates_condition() {
    let mut status = AddonStatus::default();
    let first = report(M, ForwardOutcome::Successful, "sent");
    status.apply_report(&first, at(5)).unwrap();
    let condition = status.component(M).unwrap();
    assert_eq!(condition.type_, "MetricsCollectorStatus");
    assert_eq!(
        (condition.status.as_str(), condition.message.as_str()),
        ("True", "sent")
    );
    assert_eq!(condition.last_transition_time, TransitionTime::at(at(5)));
    assert!(status.component(U).is_none());
}

#[test]
fn new_message_keeps_transition_time() {
    let mut status = AddonStatus::default();
    status
        .apply_report(&report(M, ForwardOutcome::Failure, "503"), at(1))
        .unwrap();
    let before = status.clone();
    status
        .apply_report(&report(M, ForwardOutcome::Failure, "503"), at(2))
        .unwrap();
    assert_eq!(status, before);
    status
        .apply_report(&report(M, ForwardOutcome::Failure, "timeout"), at(3))
        .unwrap();
    let condition = status.component(M).unwrap();
    assert_eq!(condition.message, "timeout");
    assert_eq!(condition.last_transition_time, TransitionTime::at(at(1)));
    status
        .apply_report(&report(M, ForwardOutcome::Successful, "sent"), at(4))
        .unwrap();
    assert_eq!(
        status.component(M).unwrap().last_transition_time,
        TransitionTime::at(at(4))
    );
}

#[test]
fn old_spelling_alone_is_not_rewritten() {
    let mut old = status("UpdateSuccesful", "Disabled");
    let before = old.clone();
    old.apply_update(&update(M, ConditionReason::UpdateSuccessful, ""), at(9))
        .unwrap();
    old.apply_update(&update(U, ConditionReason::DisabledMetrics, ""), at(9))
        .unwrap();
    assert_eq!(old, before);
    old.apply_update(&update(U, ConditionReason::DisabledMetrics, "off"), at(9))
        .unwrap();
    let condition = old.component(U).unwrap();
    assert_eq!(condition.reason, "DisabledMetrics");
    assert_eq!(
        condition.last_transition_time,
        TransitionTime::at(at(0)),
        "the reason is the same"
    );
}

#[test]
fn refused_write_changes_nothing() {
    for held in ["UpdateFailure", "DisabledMetrics", "NotSupported", "Foo"] {
        let mut status = status(held, "");
        let before = status.clone();
        let refused = status.apply_report(&report(M, ForwardOutcome::Successful, "sent"), at(9));
        let reason = held.to_owned();
        let held = TransitionError::Held {
            component: M,
            reason,
        };
        assert_eq!(refused, Err(held));
        assert_eq!(status, before);
    }
}

#[test]
fn each_rollout_is_announced_once() {
    let announce = |rollout: &str| OperatorUpdate {
        rollout: Some(rollout.to_owned()),
        ..update(M, ConditionReason::UpdateSuccessful, "rolled out")
    };
    let mut status = AddonStatus::default();
    assert!(status.is_new_rollout(M, Some("a")));
    status.apply_update(&announce("a"), at(1)).unwrap();
    assert!(!status.is_new_rollout(M, Some("a")));
    status
        .apply_report(&report(M, ForwardOutcome::Successful, "sent"), at(2))
        .unwrap();
    let again = status.apply_update(&announce("a"), at(3));
    assert_eq!(
        again,
        Err(TransitionError::NothingRolledOut { component: M })
    );
    assert_eq!(reason_of(&status, M), "ForwardSuccessful");
    status.apply_update(&announce("b"), at(4)).unwrap();
    assert_eq!(reason_of(&status, M), "UpdateSuccessful");
    assert_eq!(status.rollouts["platform"], "b");
    let replaced = OperatorUpdate {
        replaced: true,
        ..announce("b")
    };
    status
        .apply_report(&report(M, ForwardOutcome::Successful, "sent"), at(5))
        .unwrap();
    status.apply_update(&replaced, at(6)).unwrap();
    assert_eq!(
        reason_of(&status, M),
        "UpdateSuccessful",
        "another client had changed the pods"
    );
}

#[test]
fn report_of_older_rollout_is_refused() {
    let mut status = AddonStatus::default();
    let announce = OperatorUpdate {
        rollout: Some("new".to_owned()),
        ..update(M, ConditionReason::UpdateSuccessful, "rolled out")
    };
    status.apply_update(&announce, at(1)).unwrap();
    let of = |rollout: Option<&str>| CollectorReport {
        rollout: rollout.map(str::to_owned),
        ..report(M, ForwardOutcome::Successful, "sent")
    };
    let refused = status.apply_report(&of(Some("old")), at(2)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the report comes from a pod of rollout old, but the last announced rollout is new"
    );
    assert_eq!(reason_of(&status, M), "UpdateSuccessful");
    status
        .apply_report(&of(None), at(3))
        .expect("an older collector does not know rollouts");
    status.apply_report(&of(Some("new")), at(4)).unwrap();
    assert_eq!(reason_of(&status, M), "ForwardSuccessful");
}

#[test]
fn failed_update_announces_no_rollout() {
    let mut status = AddonStatus::default();
    let failed = OperatorUpdate {
        rollout: Some("a".to_owned()),
        ..update(M, ConditionReason::UpdateFailure, "forbidden")
    };
    status.apply_update(&failed, at(1)).unwrap();
    assert!(status.is_new_rollout(M, Some("a")));
}

#[test]
fn removed_component_leaves_nothing_behind() {
    let mut both = status("ForwardSuccessful", "ForwardFailure");
    both.rollouts.insert("uwl".to_owned(), "a".to_owned());
    both.remove_component(U);
    assert_eq!(both, status("ForwardSuccessful", ""));
}

#[test]
fn unrecorded_rollout_is_recorded_but_not_announced() {
    let announce = OperatorUpdate {
        rollout: Some("a".to_owned()),
        ..update(M, ConditionReason::UpdateSuccessful, "rolled out")
    };
    let mut status = status("ForwardSuccessful", "");
    let conditions = status.conditions.clone();
    status.apply_update(&announce, at(1)).unwrap();
    assert_eq!(status.conditions, conditions);
    assert_eq!(status.rollouts["platform"], "a");
    // A replaced pod is announced without a record, too.
    status.rollouts.clear();
    let replaced = OperatorUpdate {
        replaced: true,
        ..announce
    };
    status.apply_update(&replaced, at(2)).unwrap();
    assert_eq!(reason_of(&status, M), "UpdateSuccessful");
}

#[test]
fn unreadable_values_leave_the_others() {
    let status: AddonStatus = serde_json::from_value(serde_json::json!({
        "conditions": [
            { "type": "MetricsCollectorStatus", "status": "True", "reason": "ForwardSuccessful",
              "message": 7, "lastTransitionTime": null, "observedGeneration": "x" },
            "nonsense",
            { "type": "Foreign", "status": "True" },
        ],
        "rollouts": { "platform": "a", "uwl": 7 },
    }))
    .unwrap();
    assert_eq!(status.conditions.len(), 2);
    assert_eq!(reason_of(&status, M), "ForwardSuccessful");
    assert_eq!(status.rollouts.len(), 1);
    let nonsense = serde_json::json!({ "conditions": "x", "rollouts": [] });
    let nonsense: AddonStatus = serde_json::from_value(nonsense).unwrap();
    assert_eq!(nonsense, AddonStatus::default());
}

/// A status as the operator shipped with the hub writes it.
fn shipped() -> AddonStatus {
    AddonStatus {
        conditions: vec![
            condition("MetricsCollector", "ForwardSuccessful"),
            condition("UwlMetricsCollector", "UpdateSuccessful"),
        ],
        ..AddonStatus::default()
    }
}

#[test]
fn conditions_of_the_shipped_operator_are_understood() {
    let mut status = shipped();
    assert_eq!(
        reason_of(&status, AddonComponent::Platform),
        "ForwardSuccessful"
    );
    status.set_standard_conditions(at(1));
    assert_eq!(
        status.standard_condition(),
        Some(StandardCondition::Progressing)
    );
}

#[test]
fn cluster_is_taken_over_from_the_shipped_operator_and_back() {
    let mut status = shipped();
    let since = status.conditions[0].last_transition_time.clone();
    let forwarded = report(
        AddonComponent::Platform,
        ForwardOutcome::Successful,
        "10 samples sent",
    );
    status.apply_report(&forwarded, at(100)).unwrap();
    let types = |status: &AddonStatus| {
        let types = status.conditions.iter().map(|it| it.type_.clone());
        types.collect::<Vec<_>>()
    };
    assert_eq!(
        types(&status),
        ["MetricsCollectorStatus", "UwlMetricsCollector"]
    );
    assert_eq!(
        status.conditions[0].last_transition_time, since,
        "the reason has not changed"
    );
    // The shipped operator comes back and ignores the condition of Kelpie.
    let mut back = condition("MetricsCollector", "ForwardFailed");
    back.last_transition_time = TransitionTime::at(at(200));
    status.conditions.push(back);
    assert_eq!(
        reason_of(&status, AddonComponent::Platform),
        "ForwardFailed"
    );
    let older = status.conditions.remove(0);
    status.conditions.push(older);
    assert_eq!(
        reason_of(&status, AddonComponent::Platform),
        "ForwardFailed"
    );
    status.apply_report(&forwarded, at(300)).unwrap();
    assert_eq!(
        reason_of(&status, AddonComponent::Platform),
        "ForwardSuccessful"
    );
    assert_eq!(
        types(&status),
        ["UwlMetricsCollector", "MetricsCollectorStatus"]
    );
    status.remove_component(AddonComponent::Uwl);
    assert_eq!(types(&status), ["MetricsCollectorStatus"]);
}
