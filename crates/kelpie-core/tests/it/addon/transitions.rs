//! From each reason and from none, by each actor, to each reason.

use kelpie_core::addon::{Actor, Component, Reason, transition};

const TO: [Reason; 7] = [
    Reason::UpdateSuccessful,
    Reason::UpdateFailure,
    Reason::ForwardSuccessful,
    Reason::ForwardFailure,
    Reason::DisabledMetrics,
    Reason::NotSupported,
    Reason::Unknown,
];

/// Where from, and for each reason above whether it is accepted from: the operator that rolls out, the
/// operator that does not, the collector itself.
const MATRIX: [(&str, [&str; 7]); 8] = [
    //                    US     UF     FS     FF     DI     NS     unknown
    ("", ["oo-", "oo-", "--c", "--c", "oo-", "oo-", "---"]),
    (
        "UpdateSuccessful",
        ["oo-", "oo-", "--c", "--c", "oo-", "oo-", "---"],
    ),
    (
        "UpdateFailure",
        ["oo-", "oo-", "---", "---", "oo-", "oo-", "---"],
    ),
    (
        "ForwardSuccessful",
        ["o--", "oo-", "--c", "--c", "oo-", "oo-", "---"],
    ),
    (
        "ForwardFailure",
        ["o--", "oo-", "--c", "--c", "oo-", "oo-", "---"],
    ),
    (
        "DisabledMetrics",
        ["oo-", "oo-", "---", "---", "oo-", "oo-", "---"],
    ),
    (
        "NotSupported",
        ["oo-", "oo-", "---", "---", "oo-", "oo-", "---"],
    ),
    ("Foo", ["oo-", "oo-", "---", "---", "oo-", "oo-", "---"]),
];

fn actors(component: Component) -> [(char, Actor); 3] {
    [
        ('o', Actor::Operator { rolls_out: true }),
        ('o', Actor::Operator { rolls_out: false }),
        ('c', Actor::Collector(component)),
    ]
}

#[test]
fn every_actor_may_do_exactly_what_the_matrix_says() {
    for component in Component::ALL {
        for (from, row) in MATRIX {
            let current = (!from.is_empty()).then(|| (Reason::read(from), from));
            for (to, accepted) in TO.into_iter().zip(row) {
                let told: String = actors(component)
                    .into_iter()
                    .map(|(sign, actor)| {
                        let answer = transition(component, current, actor, to);
                        if answer.is_ok() { sign } else { '-' }
                    })
                    .collect();
                assert_eq!(told, accepted, "{component}: {from:?} to {to}");
            }
        }
    }
}

#[test]
fn no_collector_speaks_for_the_other_one() {
    for (component, other) in [
        (Component::Platform, Component::Uwl),
        (Component::Uwl, Component::Platform),
    ] {
        for (from, _) in MATRIX {
            let current = (!from.is_empty()).then(|| (Reason::read(from), from));
            for to in TO {
                let answer = transition(component, current, Actor::Collector(other), to);
                assert!(
                    answer.is_err(),
                    "{other} about {component}: {from:?} to {to}"
                );
            }
        }
    }
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let said = |from: &str, actor, to| {
        let current = (!from.is_empty()).then(|| (Reason::read(from), from));
        let answer = transition(Component::Platform, current, actor, to);
        answer.unwrap_err().to_string()
    };
    let own = Actor::Collector(Component::Platform);
    assert_eq!(
        said("UpdateFailed", own, Reason::ForwardSuccessful),
        "the platform collector is held at UpdateFailed: the operator has to announce an update \
         first"
    );
    assert_eq!(
        said("", own, Reason::UpdateSuccessful),
        "UpdateSuccessful is not for the platform collector to say"
    );
    let other = Actor::Collector(Component::Uwl);
    assert_eq!(
        said("", other, Reason::ForwardFailure),
        "the user-workload collector may not speak for the platform collector"
    );
    let operator = Actor::Operator { rolls_out: false };
    assert_eq!(
        said("ForwardFailure", operator, Reason::UpdateSuccessful),
        "the platform collector has reported since its last rollout, and nothing was rolled out \
         since"
    );
    assert_eq!(
        said("", operator, Reason::ForwardSuccessful),
        "ForwardSuccessful is not for the operator to say"
    );
}
