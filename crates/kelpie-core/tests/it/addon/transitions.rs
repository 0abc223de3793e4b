//! All transitions between reasons, for each actor.

use kelpie_core::addon::{AddonComponent, ConditionReason, StatusActor, check_transition};

const TO: [ConditionReason; 7] = [
    ConditionReason::UpdateSuccessful,
    ConditionReason::UpdateFailure,
    ConditionReason::ForwardSuccessful,
    ConditionReason::ForwardFailure,
    ConditionReason::DisabledMetrics,
    ConditionReason::NotSupported,
    ConditionReason::Unknown,
];

/// The current reason, and for each reason in `TO` the actors that may set it: the operator during
/// a rollout, the operator otherwise, the collector itself.
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

const ACTORS: [(char, StatusActor); 3] = [
    ('o', StatusActor::Operator { rolls_out: true }),
    ('o', StatusActor::Operator { rolls_out: false }),
    ('c', StatusActor::Collector),
];

#[test]
fn actors_may_do_exactly_what_the_matrix_allows() {
    for component in AddonComponent::ALL {
        for (from, row) in MATRIX {
            let current = (!from.is_empty()).then(|| (ConditionReason::parse(from), from));
            for (to, accepted) in TO.into_iter().zip(row) {
                let allowed: String = ACTORS
                    .into_iter()
                    .map(|(sign, actor)| {
                        let result = check_transition(component, current, actor, to);
                        if result.is_ok() { sign } else { '-' }
                    })
                    .collect();
                assert_eq!(allowed, accepted, "{component}: {from:?} to {to}");
            }
        }
    }
}

#[test]
fn refusals_explain_themselves() {
    let refusal = |from: &str, actor, to| {
        let current = (!from.is_empty()).then(|| (ConditionReason::parse(from), from));
        let result = check_transition(AddonComponent::Platform, current, actor, to);
        result.unwrap_err().to_string()
    };
    let own = StatusActor::Collector;
    assert_eq!(
        refusal("UpdateFailed", own, ConditionReason::ForwardSuccessful),
        "the platform collector is held at UpdateFailed until the operator announces an update"
    );
    assert_eq!(
        refusal("", own, ConditionReason::UpdateSuccessful),
        "the platform collector may not set UpdateSuccessful"
    );
    let operator = StatusActor::Operator { rolls_out: false };
    assert_eq!(
        refusal(
            "ForwardFailure",
            operator,
            ConditionReason::UpdateSuccessful
        ),
        "the platform collector has reported since its last rollout, and nothing was rolled out \
         since"
    );
    assert_eq!(
        refusal("", operator, ConditionReason::ForwardSuccessful),
        "the operator may not set ForwardSuccessful"
    );
}
