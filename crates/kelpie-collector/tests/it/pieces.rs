//! A body that comes in pieces, or not to its end.

use std::sync::Arc;

use kelpie_collector::{Rules, TextError};

use crate::rig::{NOW, run, run_pieces};

const BODY: &str =
    "# HELP a b\n# TYPE a untyped\na{x=\"y\\\"z\\n\",e=\"\"} 1.5 1699999999999\n\nb NaN\n";

#[test]
fn any_cut_of_the_body_gives_the_same() {
    let whole = run(Rules::new(), BODY.as_bytes()).sent();
    assert_eq!(
        whole,
        [r#"a{x="y\"z\n"} 1.5 1699999999999"#, "b NaN 1700000000000",]
    );
    for size in 1..BODY.len() {
        let pieces: Vec<&[u8]> = BODY.as_bytes().chunks(size).collect();
        let outcome = run_pieces(Rules::new(), &Arc::default(), NOW, &pieces);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(outcome.sent(), whole, "in pieces of {size}");
    }
}

#[test]
fn a_body_cut_within_a_line_is_an_error_and_the_half_line_is_not_sent() {
    let outcome = run(Rules::new(), b"a 1\nb 123");
    assert_eq!(outcome.sent(), ["a 1 1700000000000"]);
    let error = outcome.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the source's answer was cut in the middle of line 2, which begins with \"b 123\""
    );
}

#[test]
fn what_stood_before_a_faulty_line_is_sent() {
    let outcome = run(Rules::new(), b"a 1\n?\nb 1\n");
    assert_eq!(outcome.sent().len(), 1);
    assert_eq!(outcome.tally.read, 1);
    assert!(matches!(
        outcome.result,
        Err(TextError::Malformed { line: 2, .. })
    ));
}

#[test]
fn a_line_of_more_than_a_mebibyte_is_an_error_however_it_comes() {
    let limit = 1 << 20;
    let line = |length: usize| format!("a{{x=\"{}\"}} 1", "y".repeat(length - 9));
    let fits = format!("{}\n", line(limit));
    assert_eq!(run(Rules::new(), fits.as_bytes()).result, Ok(()));

    let long = format!("b 1\n{}\n", line(limit + 1));
    let endless = "y".repeat(2 * limit);
    for pieces in [
        vec![long.as_bytes()],
        long.as_bytes().chunks(1000).collect(),
        vec![b"b 1\n", endless.as_bytes()],
    ] {
        let outcome = run_pieces(Rules::new(), &Arc::default(), NOW, &pieces);
        let error = outcome.result.unwrap_err();
        assert!(
            matches!(error, TextError::TooLong { line: 2, .. }),
            "{error}"
        );
        assert!(error.to_string().len() < 300, "{error}");
    }
}
