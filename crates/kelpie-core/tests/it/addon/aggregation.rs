//! Two reasons make one.

use kelpie_core::addon::{Reason, Standard};

use super::status;

/// Platform down, user workload across: none, then each reason; what wins.
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

fn spelled(code: &str) -> &'static str {
    let mut reasons = REASONS.into_iter();
    reasons.find(|(known, _)| *known == code).unwrap().1
}

#[test]
fn the_whole_table_of_8_by_8_holds_in_any_order_of_the_list() {
    for (platform, row) in TABLE {
        for ((uwl, _), winner) in REASONS.into_iter().zip(row) {
            let mut status = status(spelled(platform), spelled(uwl));
            for _ in 0..2 {
                let reason = status.aggregate().map(|aggregate| aggregate.reason);
                let reason = reason.unwrap_or_default();
                assert_eq!(reason, spelled(winner), "{platform} and {uwl}");
                status.conditions.reverse();
            }
        }
    }
}

/// The seed's table, with its own spelling; below the diagonal as it stands there.
const SEED: [(&str, [&str; 4]); 4] = [
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
fn all_16_pairs_of_the_original_table_hold_and_swapping_changes_nothing() {
    let mut pairs = 0;
    for (row, (one, cells)) in SEED.into_iter().enumerate() {
        for (column, cell) in cells.into_iter().enumerate() {
            let other = SEED[column].0;
            // An x stands for the cell on the other side of the diagonal.
            let cell = if cell == "x" {
                SEED[column].1[row]
            } else {
                cell
            };
            for (platform, uwl) in [(one, other), (other, one)] {
                let aggregate = status(platform, uwl).aggregate().unwrap();
                let wanted = Reason::read(cell);
                assert_eq!(aggregate.reason, wanted.name(), "{platform} and {uwl}");
                assert_eq!(aggregate.standard, wanted.standard());
            }
            pairs += 1;
        }
    }
    assert_eq!(pairs, 16);
}

#[test]
fn each_reason_stands_for_one_standard_type() {
    for (reason, standard) in [
        ("UpdateSuccessful", Standard::Progressing),
        ("UpdateFailure", Standard::Degraded),
        ("ForwardSuccessful", Standard::Available),
        ("ForwardFailure", Standard::Degraded),
        ("DisabledMetrics", Standard::Disabled),
        ("NotSupported", Standard::NotSupported),
        ("UpdateSuccesful", Standard::Progressing),
        ("UpdateFailed", Standard::Degraded),
        ("ForwardFailed", Standard::Degraded),
        ("Disabled", Standard::Disabled),
        ("Foo", Standard::Degraded),
        ("", Standard::Degraded),
    ] {
        let mut one = status("x", "");
        one.conditions[0].reason = reason.to_owned();
        assert_eq!(one.aggregate().unwrap().standard, standard, "{reason}");
    }
}

#[test]
fn the_message_names_each_component_and_its_state() {
    let mut both = status("ForwardSuccessful", "ForwardFailed");
    both.conditions[1].message = "hub\nanswers 503".to_owned();
    assert_eq!(
        both.aggregate().unwrap().message,
        "platform collector: ForwardSuccessful; user-workload collector: ForwardFailure (hub \
         answers 503)"
    );
}

#[test]
fn of_two_unknown_reasons_the_first_in_the_alphabet_is_shown_whosever_it_is() {
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
