//! Bodies that arrive in chunks, or only in part.

use std::sync::Arc;

use kelpie_collector::{TextError, TransformRules};

use crate::fixture::{NOW, run, run_chunks};

const BODY: &str =
    "# HELP a b\n# TYPE a untyped\na{x=\"y\\\"z\\n\",e=\"\"} 1.5 1699999999999\n\nb NaN\n";

#[test]
fn chunk_boundaries_do_not_matter() {
    let whole = run(TransformRules::new(), BODY.as_bytes()).sent();
    assert_eq!(
        whole,
        [r#"a{x="y\"z\n"} 1.5 1699999999999"#, "b NaN 1700000000000",]
    );
    for size in 1..BODY.len() {
        let chunks: Vec<&[u8]> = BODY.as_bytes().chunks(size).collect();
        let outcome = run_chunks(TransformRules::new(), &Arc::default(), NOW, &chunks);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(outcome.sent(), whole, "in chunks of {size}");
    }
}

#[test]
fn truncated_line_is_an_error() {
    let outcome = run(TransformRules::new(), b"a 1\nb 123");
    assert_eq!(outcome.sent(), ["a 1 1700000000000"]);
    let error = outcome.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the source's response was truncated within line 2, which starts with \"b 123\""
    );
}

#[test]
fn samples_before_malformed_line_are_sent() {
    let outcome = run(TransformRules::new(), b"a 1\n?\nb 1\n");
    assert_eq!(outcome.sent().len(), 1);
    assert_eq!(outcome.counts.read, 1);
    assert!(matches!(
        outcome.result,
        Err(TextError::Malformed { line: 2, .. })
    ));
}

#[test]
fn line_over_1_mib_is_an_error() {
    let limit = 1 << 20;
    let line = |length: usize| format!("a{{x=\"{}\"}} 1", "y".repeat(length - 9));
    let fits = format!("{}\n", line(limit));
    assert_eq!(run(TransformRules::new(), fits.as_bytes()).result, Ok(()));

    let long = format!("b 1\n{}\n", line(limit + 1));
    let endless = "y".repeat(2 * limit);
    for chunks in [
        vec![long.as_bytes()],
        long.as_bytes().chunks(1000).collect(),
        vec![b"b 1\n", endless.as_bytes()],
    ] {
        let outcome = run_chunks(TransformRules::new(), &Arc::default(), NOW, &chunks);
        let error = outcome.result.unwrap_err();
        assert!(
            matches!(error, TextError::TooLong { line: 2, .. }),
            "{error}"
        );
        assert!(error.to_string().len() < 300, "{error}");
    }
}
