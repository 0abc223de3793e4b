//! Properties of the status under any sequence of writes.

use kelpie_core::addon::{
    AddonComponent, AddonStatus, Condition, ConditionReason, ForwardOutcome, OperatorUpdate,
    StandardCondition,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{at, condition, report, status, update};

#[derive(Clone, Debug)]
enum Write {
    Report(AddonComponent, ForwardOutcome, &'static str),
    Update(
        AddonComponent,
        ConditionReason,
        &'static str,
        Option<&'static str>,
    ),
    Remove(AddonComponent),
    Aggregate,
    /// An edit by another client.
    Foreign(Condition),
}

fn component() -> impl Strategy<Value = AddonComponent> {
    prop_oneof![Just(AddonComponent::Platform), Just(AddonComponent::Uwl)]
}

fn foreign() -> impl Strategy<Value = Condition> {
    let types = [
        "Available",
        "Degraded",
        "Progressing",
        "Foreign",
        "MetricsCollectorStatus",
    ];
    let reasons = [
        "ForwardSuccessful",
        "UpdateSuccesful",
        "Foo",
        "",
        "Disabled",
    ];
    let status = ["True", "False", "Unknown", "yes"];
    let parts = (0..types.len(), 0..reasons.len(), 0..status.len());
    parts.prop_map(move |(condition_type, reason, value)| Condition {
        status: status[value].to_owned(),
        ..condition(types[condition_type], reasons[reason])
    })
}

/// Reasons that count the same for both collectors.
fn symmetric_reason() -> impl Strategy<Value = String> {
    let known = [
        "ForwardFailure",
        "ForwardFailed",
        "UpdateFailure",
        "UpdateFailed",
        "UpdateSuccessful",
        "UpdateSuccesful",
        "ForwardSuccessful",
    ];
    let known = (0..known.len()).prop_map(move |index| known[index].to_owned());
    let is_symmetric = |reason: &String| {
        let reason = ConditionReason::parse(reason);
        reason != ConditionReason::DisabledMetrics && reason != ConditionReason::NotSupported
    };
    prop_oneof![known, "[A-Z][A-Za-z]{0,6}"].prop_filter("symmetric", is_symmetric)
}

fn message() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("one"), Just("two")]
}

fn write() -> impl Strategy<Value = Write> {
    let forward = prop_oneof![
        Just(ForwardOutcome::Successful),
        Just(ForwardOutcome::Failure)
    ];
    let reason = prop_oneof![
        Just(ConditionReason::ForwardSuccessful),
        Just(ConditionReason::UpdateSuccessful),
        Just(ConditionReason::UpdateFailure),
        Just(ConditionReason::ForwardFailure),
        Just(ConditionReason::DisabledMetrics),
        Just(ConditionReason::NotSupported),
    ];
    let rollout = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    prop_oneof![
        4 => (component(), forward, message()).prop_map(|(c, f, m)| Write::Report(c, f, m)),
        4 => (component(), reason, message(), rollout)
            .prop_map(|(c, r, m, h)| Write::Update(c, r, m, h)),
        1 => component().prop_map(Write::Remove),
        3 => Just(Write::Aggregate),
        1 => foreign().prop_map(Write::Foreign),
    ]
}

/// Writes of the operator, the collectors and the status controller.
fn own_write() -> impl Strategy<Value = Write> {
    write().prop_filter("own", |write| !matches!(write, Write::Foreign(_)))
}

fn perform(status: &mut AddonStatus, write: &Write, seconds: i64) {
    // The properties hold for refused writes as well.
    match write {
        Write::Report(component, forward, message) => {
            let _ = status.apply_report(&report(*component, *forward, message), at(seconds));
        }
        Write::Update(component, reason, message, rollout) => {
            let update = OperatorUpdate {
                rollout: rollout.map(str::to_owned),
                ..update(*component, *reason, message)
            };
            let _ = status.apply_update(&update, at(seconds));
        }
        Write::Remove(component) => status.remove_component(*component),
        Write::Aggregate => status.set_standard_conditions(at(seconds)),
        Write::Foreign(condition) => status.conditions.push(condition.clone()),
    }
}

fn true_count(status: &AddonStatus) -> usize {
    let standard = StandardCondition::ALL.map(StandardCondition::condition_type);
    let conditions = status.conditions.iter();
    conditions
        .filter(|condition| standard.contains(&condition.type_.as_str()) && condition.is_true())
        .count()
}

fn has_duplicates(status: &AddonStatus) -> bool {
    let mut types: Vec<_> = status.conditions.iter().map(|c| &c.type_).collect();
    types.sort_unstable();
    types.windows(2).any(|pair| pair[0] == pair[1])
}

proptest! {
    #[test]
    fn writes_never_cause_two_trues_or_duplicates(
        writes in vec(own_write(), 0..60)
    ) {
        let mut status = AddonStatus::default();
        for (second, write) in writes.iter().enumerate() {
            perform(&mut status, write, second as i64);
            prop_assert!(true_count(&status) <= 1, "{status:?}");
            prop_assert!(!has_duplicates(&status), "{status:?}");
        }
    }

    #[test]
    fn aggregation_repairs_foreign_edits_and_is_idempotent(
        writes in vec(write(), 0..60)
    ) {
        let mut status = AddonStatus::default();
        for (second, write) in writes.iter().enumerate() {
            perform(&mut status, write, second as i64);
        }
        let expected = status.aggregate();
        status.set_standard_conditions(at(100));
        if let Some(expected) = expected {
            prop_assert_eq!(true_count(&status), 1);
            prop_assert_eq!(status.standard_condition(), Some(expected.standard));
            prop_assert!(!has_duplicates(&status));
            prop_assert_eq!(status.aggregate(), Some(expected));
        }
        let once = status.clone();
        status.set_standard_conditions(at(200));
        prop_assert_eq!(status, once);
    }

    #[test]
    fn aggregation_never_touches_component_conditions(writes in vec(write(), 0..60)) {
        let mut status = AddonStatus::default();
        for (second, write) in writes.iter().enumerate() {
            perform(&mut status, write, second as i64);
        }
        let components = |status: &AddonStatus| {
            AddonComponent::ALL.map(|component| status.component(component).cloned())
        };
        let before = components(&status);
        status.set_standard_conditions(at(100));
        prop_assert_eq!(components(&status), before);
    }

    #[test]
    fn aggregation_is_symmetric(one in symmetric_reason(), other in symmetric_reason()) {
        let result = |platform: &str, uwl: &str| {
            let aggregate = status(platform, uwl).aggregate().unwrap();
            (aggregate.standard, aggregate.reason)
        };
        prop_assert_eq!(result(&one, &other), result(&other, &one));
        prop_assert_eq!(result(&one, &one).0, ConditionReason::parse(&one).standard_condition());
    }

    #[test]
    fn order_of_conditions_does_not_matter(writes in vec(write(), 0..40), turn in 0_usize..40) {
        let mut status = AddonStatus::default();
        for (second, write) in writes.iter().enumerate() {
            perform(&mut status, write, second as i64);
        }
        let mut shuffled = status.clone();
        let count = shuffled.conditions.len().max(1);
        shuffled.conditions.rotate_left(turn % count);
        prop_assert_eq!(shuffled.aggregate(), status.aggregate());
    }
}
