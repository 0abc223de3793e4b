//! Aggregation of two components' reasons.

use kelpie_core::addon::{ConditionReason, StandardCondition};

use super::status;

/// The codes of the table below, and their reasons. `-` stands for no condition.
const REASONS: [(&str, &str); 8] = [
    ("-", ""),
    ("FF", "ForwardFailure"),
    ("UF", "UpdateFailure"),
    ("??", "Foo"),
    ("US", "UpdateSuccessful"),
    ("FS", "ForwardSuccessful"),
    ("DI", "DisabledMetrics"),
    ("NS", "NotSupported"),
];

/// The decisive reason for each platform reason (rows) and user-workload reason (columns).
const TABLE: [(&str, [&str; 8]); 8] = [
    //      -     FF    UF    ??    US    FS    DI    NS
    ("-", ["-", "FF", "UF", "??", "US", "US", "US", "US"]),
    ("FF", ["FF", "FF", "FF", "FF", "FF", "FF", "FF", "FF"]),
    ("UF", ["UF", "FF", "UF", "UF", "UF", "UF", "UF", "UF"]),
    ("??", ["??", "FF", "UF", "??", "??", "??", "??", "??"]),
    ("US", ["US", "FF", "UF", "??", "US", "US", "US", "US"]),
    ("FS", ["FS", "FF", "UF", "??", "US", "FS", "FS", "FS"]),
    ("DI", ["DI", "DI", "DI", "DI", "DI", "DI", "DI", "DI"]),
    ("NS", ["NS", "NS", "NS", "NS", "NS", "NS", "NS", "NS"]),
];

fn reason_text(code: &str) -> &'static str {
    let mut reasons = REASONS.into_iter();
    reasons.find(|(known, _)| *known == code).unwrap().1
}

#[test]
fn aggregation_matches_full_table_in_any_order() {
    for (platform, row) in TABLE {
        for ((uwl, _), winner) in REASONS.into_iter().zip(row) {
            let mut status = status(reason_text(platform), reason_text(uwl));
            for _ in 0..2 {
                let reason = status.aggregate().map(|aggregate| aggregate.reason);
                let reason = reason.unwrap_or_default();
                assert_eq!(reason, reason_text(winner), "{platform} and {uwl}");
                status.conditions.reverse();
            }
        }
    }
}

/// The table of the original design, in its spelling. It has only one half of the pairs: an `x`
/// stands for the mirrored cell.
const ORIGINAL: [(&str, [&str; 4]); 4] = [
    //                    FF                FS                   UF               US
    ("ForwardFailure", ["ForwardFailure", "x", "x", "x"]),
    (
        "ForwardSuccessful",
        ["ForwardFailure", "ForwardSuccessful", "x", "x"],
    ),
    (
        "UpdateFailure",
        ["ForwardFailure", "UpdateFailure", "UpdateFailure", "x"],
    ),
    (
        "UpdateSuccesful",
        [
            "ForwardFailure",
            "UpdateSuccesful",
            "UpdateFailure",
            "UpdateSuccesful",
        ],
    ),
];

#[test]
fn original_table_holds_and_is_symmetric() {
    let mut pairs = 0;
    for (row, (one, cells)) in ORIGINAL.into_iter().enumerate() {
        for (column, cell) in cells.into_iter().enumerate() {
            let other = ORIGINAL[column].0;
            let cell = if cell == "x" {
                ORIGINAL[column].1[row]
            } else {
                cell
            };
            for (platform, uwl) in [(one, other), (other, one)] {
                let aggregate = status(platform, uwl).aggregate().unwrap();
                let expected = ConditionReason::parse(cell);
                assert_eq!(aggregate.reason, expected.as_str(), "{platform} and {uwl}");
                assert_eq!(aggregate.standard, expected.standard_condition());
            }
            pairs += 1;
        }
    }
    assert_eq!(pairs, 16);
}

#[test]
fn each_reason_has_one_standard_type() {
    for (reason, standard) in [
        ("UpdateSuccessful", StandardCondition::Progressing),
        ("UpdateFailure", StandardCondition::Degraded),
        ("ForwardSuccessful", StandardCondition::Available),
        ("ForwardFailure", StandardCondition::Degraded),
        ("DisabledMetrics", StandardCondition::Disabled),
        ("NotSupported", StandardCondition::NotSupported),
        ("UpdateSuccesful", StandardCondition::Progressing),
        ("UpdateFailed", StandardCondition::Degraded),
        ("ForwardFailed", StandardCondition::Degraded),
        ("Disabled", StandardCondition::Disabled),
        ("Foo", StandardCondition::Degraded),
        ("", StandardCondition::Degraded),
    ] {
        let mut one = status("x", "");
        one.conditions[0].reason = reason.to_owned();
        assert_eq!(one.aggregate().unwrap().standard, standard, "{reason}");
    }
}

#[test]
fn message_names_each_component_and_state() {
    let mut both = status("ForwardSuccessful", "ForwardFailed");
    both.conditions[1].message = "hub\nanswers 503".to_owned();
    assert_eq!(
        both.aggregate().unwrap().message,
        "platform collector: ForwardSuccessful; user-workload collector: ForwardFailure (hub \
         answers 503)"
    );
}

#[test]
fn alphabetically_first_unknown_reason_wins() {
    assert_eq!(status("Foo", "Bar").aggregate().unwrap().reason, "Bar");
    assert_eq!(status("Bar", "Foo").aggregate().unwrap().reason, "Bar");
    assert_eq!(
        status("Foo", "ForwardSuccessful")
            .aggregate()
            .unwrap()
            .reason,
        "Foo"
    );
}
