//! What holds for any sequence of writes by anybody.

use kelpie_core::addon::{Component, Condition, Forward, Reason, Standard, Status, Update};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{at, condition, report, status, update};

#[derive(Clone, Debug)]
enum Deed {
    Report(Component, Forward, &'static str),
    Update(Component, Reason, &'static str, Option<&'static str>),
    Forget(Component),
    Settle,
    /// Somebody edits the list by hand.
    Vandal(Condition),
}

fn component() -> impl Strategy<Value = Component> {
    prop_oneof![Just(Component::Platform), Just(Component::Uwl)]
}

fn foreign() -> impl Strategy<Value = Condition> {
    let kinds = [
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
    let parts = (0..kinds.len(), 0..reasons.len(), 0..status.len());
    parts.prop_map(move |(kind, reason, truth)| Condition {
        status: status[truth].to_owned(),
        ..condition(kinds[kind], reasons[reason])
    })
}

/// Those that count the same whichever collector has them.
fn weighed() -> impl Strategy<Value = String> {
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
    let is_weighed = |reason: &String| {
        let reason = Reason::read(reason);
        reason != Reason::DisabledMetrics && reason != Reason::NotSupported
    };
    prop_oneof![known, "[A-Z][A-Za-z]{0,6}"].prop_filter("weighed", is_weighed)
}

fn message() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("one"), Just("two")]
}

fn deed() -> impl Strategy<Value = Deed> {
    let forward = prop_oneof![Just(Forward::Successful), Just(Forward::Failure)];
    let reason = (0..Reason::WRITTEN.len()).prop_map(|index| Reason::WRITTEN[index]);
    let rollout = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    prop_oneof![
        4 => (component(), forward, message()).prop_map(|(c, f, m)| Deed::Report(c, f, m)),
        4 => (component(), reason, message(), rollout)
            .prop_map(|(c, r, m, h)| Deed::Update(c, r, m, h)),
        1 => component().prop_map(Deed::Forget),
        3 => Just(Deed::Settle),
        1 => foreign().prop_map(Deed::Vandal),
    ]
}

fn carry_out(status: &mut Status, deed: &Deed, seconds: i64) {
    // Whether it is refused does not matter here.
    match deed {
        Deed::Report(component, forward, message) => {
            let _ = status.report(&report(*component, *forward, message), at(seconds));
        }
        Deed::Update(component, reason, message, rollout) => {
            let update = Update {
                rollout: rollout.map(str::to_owned),
                ..update(*component, *reason, message)
            };
            let _ = status.update(&update, at(seconds));
        }
        Deed::Forget(component) => status.forget(*component),
        Deed::Settle => status.settle(at(seconds)),
        Deed::Vandal(condition) => status.conditions.push(condition.clone()),
    }
}

fn trues(status: &Status) -> usize {
    let standard = Standard::ALL.map(Standard::condition);
    let conditions = status.conditions.iter();
    conditions
        .filter(|condition| standard.contains(&condition.kind.as_str()) && condition.is_true())
        .count()
}

fn has_duplicates(status: &Status) -> bool {
    let mut kinds: Vec<_> = status.conditions.iter().map(|c| &c.kind).collect();
    kinds.sort_unstable();
    kinds.windows(2).any(|pair| pair[0] == pair[1])
}

proptest! {
    #[test]
    fn no_sequence_of_writes_leads_to_two_trues_or_a_duplicate(
        deeds in vec(deed().prop_filter("honest", |deed| !matches!(deed, Deed::Vandal(_))), 0..60)
    ) {
        let mut status = Status::default();
        for (second, deed) in deeds.iter().enumerate() {
            carry_out(&mut status, deed, second as i64);
            prop_assert!(trues(&status) <= 1, "{status:?}");
            prop_assert!(!has_duplicates(&status), "{status:?}");
        }
    }

    #[test]
    fn settling_heals_whatever_somebody_did_and_is_done_then(
        deeds in vec(deed(), 0..60)
    ) {
        let mut status = Status::default();
        for (second, deed) in deeds.iter().enumerate() {
            carry_out(&mut status, deed, second as i64);
        }
        let expected = status.aggregate();
        status.settle(at(100));
        if let Some(expected) = expected {
            prop_assert_eq!(trues(&status), 1);
            prop_assert_eq!(status.standing(), Some(expected.standard));
            prop_assert!(!has_duplicates(&status));
            prop_assert_eq!(status.aggregate(), Some(expected));
        }
        let once = status.clone();
        status.settle(at(200));
        prop_assert_eq!(status, once);
    }

    #[test]
    fn settling_never_touches_what_wakes_the_controller(deeds in vec(deed(), 0..60)) {
        let mut status = Status::default();
        for (second, deed) in deeds.iter().enumerate() {
            carry_out(&mut status, deed, second as i64);
        }
        let woken_by = |status: &Status| {
            Component::ALL.map(|component| status.component(component).cloned())
        };
        let before = woken_by(&status);
        status.settle(at(100));
        prop_assert_eq!(woken_by(&status), before);
    }

    #[test]
    fn which_collector_says_which_does_not_matter(one in weighed(), other in weighed()) {
        let came_to = |platform: &str, uwl: &str| {
            let aggregate = status(platform, uwl).aggregate().unwrap();
            (aggregate.standard, aggregate.reason)
        };
        prop_assert_eq!(came_to(&one, &other), came_to(&other, &one));
        prop_assert_eq!(came_to(&one, &one).0, Reason::read(&one).standard());
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(deeds in vec(deed(), 0..40), turn in 0_usize..40) {
        let mut status = Status::default();
        for (second, deed) in deeds.iter().enumerate() {
            carry_out(&mut status, deed, second as i64);
        }
        let mut shuffled = status.clone();
        let count = shuffled.conditions.len().max(1);
        shuffled.conditions.rotate_left(turn % count);
        prop_assert_eq!(shuffled.aggregate(), status.aggregate());
    }
}
