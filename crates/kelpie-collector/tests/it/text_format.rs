//! The text format as Prometheus 2.42 parses it. Differences are marked. The end-to-end tests
//! compare with a real Prometheus.

use kelpie_collector::{InvalidNames, TextError, TransformRules};

use crate::fixture::run;

/// Returns the samples on these lines, or the error.
fn read(body: &str) -> Result<Vec<String>, String> {
    let outcome = run(
        TransformRules::new().invalid_names(InvalidNames::Keep),
        body.as_bytes(),
    );
    let error = outcome.result.as_ref().err().map(TextError::to_string);
    error.map_or_else(|| Ok(outcome.sent()), Err)
}

/// Returns the value of a sample with this spelling, if it is valid.
fn value(spelling: &str) -> Option<f64> {
    let outcome = run(TransformRules::new(), format!("a {spelling}\n").as_bytes());
    outcome.result.ok()?;
    Some(outcome.batches[0].samples()[0].value)
}

#[test]
fn lines_are_parsed_like_prometheus() {
    for (line, labels) in [
        ("a 1", "a"),
        ("a\t1 \t", "a"),
        (":a:b_1 1", ":a:b_1"),
        ("a{} 1", "a"),
        ("a{x=\"y\"}1", r#"a{x="y"}"#),
        ("a { x = \"y\" , z = \"w\" , } 1", r#"a{x="y",z="w"}"#),
        ("a{x=\"y\"z=\"w\"} 1", r#"a{x="y",z="w"}"#),
        ("a+1", "a"),
        ("a{x=\"}#,= \"} 1", r#"a{x="}#,= "}"#),
        ("a{x=\"ä\ty\"} 1", "a{x=\"ä\ty\"}"),
        (r#"a{x="\"\\n\n\t"} 1"#, r#"a{x="\"\\n\n\\t"}"#),
        (r#"a{x="\\",y="z"} 1"#, r#"a{x="\\",y="z"}"#),
        // Supported by Prometheus 3 only.
        (r#"{"a.b",x="y"} 1"#, r#"{"a.b",x="y"}"#),
        (r#"{x="y","a.b"} 1"#, r#"{"a.b",x="y"}"#),
        (r#"a{"x.\"y"="z"} 1"#, r#"a{"x.\"y"="z"}"#),
    ] {
        let expected = vec![format!("{labels} 1 1700000000000")];
        assert_eq!(read(&format!("{line}\n")), Ok(expected), "{line}");
    }
}

#[test]
fn lines_without_samples_are_skipped() {
    let body = "\n \t\n# HELP a \\q\n# TYPE a counter\n#\n#x\n  # y\n# EOF\n";
    assert_eq!(read(body), Ok(Vec::new()));
}

#[test]
fn malformed_line_is_rejected_with_position() {
    for (line, expected) in [
        (" a 1", "the name of a metric at byte 0"),
        ("1a 1", "the name of a metric at byte 0"),
        ("ä 1", "the name of a metric at byte 0"),
        ("\0", "the name of a metric at byte 0"),
        ("{x=\"y\"} 1", "the name of a metric at byte 7"),
        ("{\"a\" x=\"y\"} 1", "= at byte 5"),
        ("a{\"b\"} 1", "= at byte 5"),
        ("a{b} 1", "= at byte 3"),
        ("a{,} 1", "the name of a label, or } at byte 2"),
        ("a{x=\"y\",,} 1", "the name of a label, or } at byte 8"),
        ("a{1x=\"y\"} 1", "the name of a label, or } at byte 2"),
        ("a{x:y=\"z\"} 1", "= at byte 3"),
        (
            "a{x='y'} 1",
            "the value of a label, in double quotes at byte 4",
        ),
        ("a{x=\"y} 1", "a closing quote at byte 9"),
        ("a{x=\"\\\"} 1", "a closing quote at byte 10"),
        ("a{x=\"y\" 1", "the name of a label, or } at byte 8"),
        ("a", "a value at byte 1"),
        ("a{x=\"y\"}", "a value at byte 8"),
        ("a 1\r", "a value at byte 2"),
        ("a 1{}", "a value at byte 2"),
        (
            "a 1 -5",
            "a timestamp in milliseconds, or the end of the line at byte 4",
        ),
        (
            "a 1 1.5",
            "a timestamp in milliseconds, or the end of the line at byte 4",
        ),
        (
            "a 1 9223372036854775808",
            "a timestamp in milliseconds, or the end of the line at byte 4",
        ),
        (
            "a 1 # {x=\"y\"} 1",
            "a timestamp in milliseconds, or the end of the line at byte 4",
        ),
        ("a 1 1700000000000 5", "the end of the line at byte 18"),
    ] {
        let error = read(&format!("# ok\n{line}\n")).unwrap_err();
        let message = format!(
            "line 2 of the source's response is not in the text format: expected {expected}; \
             it starts with {line:?}"
        );
        assert_eq!(error, message);
    }
}

#[test]
fn invalid_utf_8_is_rejected_outside_comments() {
    let outcome = run(TransformRules::new(), b"# \xff\na{x=\"\xff\"} 1\n");
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.contains("expected UTF-8 at byte 5"), "{error}");
}

#[test]
fn values_are_parsed_like_prometheus() {
    for (spelling, bits) in [
        ("0", 0.0),
        ("-0", -0.0),
        ("00012", 12.0),
        ("+1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5e1", 5.0),
        ("1E3", 1e3),
        ("1e+3", 1e3),
        ("1e0000003", 1e3),
        ("123456789", 123_456_789.0),
        ("1234567890", 1_234_567_890.0),
        ("9007199254740993", 9_007_199_254_740_992.0),
        ("0.30000000000000004", 0.1 + 0.2),
        ("1e-400", 0.0),
        ("0e999", 0.0),
        ("4.9406564584124654e-324", f64::from_bits(1)),
        ("1.7976931348623157e308", f64::MAX),
        ("Inf", f64::INFINITY),
        ("+inf", f64::INFINITY),
        ("-INFINITY", f64::NEG_INFINITY),
        // The NaN bits of Prometheus. Another NaN is its stale marker.
        ("NaN", f64::from_bits(0x7ff8_0000_0000_0001)),
        ("nAn", f64::from_bits(0x7ff8_0000_0000_0001)),
    ] {
        let read = value(spelling).map(f64::to_bits);
        assert_eq!(read, Some(bits.to_bits()), "{spelling}");
    }
    for wrong in [
        "1e400",
        "-1.7976931348623159e308",
        "+NaN",
        "-nan",
        "infin",
        "0x1",
        "0x1p3",
        "1_000",
        "1,5",
        "--1",
        "1f",
        ".",
        "-.",
        "e3",
        "1e",
        "1e5.5",
        "1.5.5",
        "true",
        "９",
    ] {
        assert_eq!(value(wrong), None, "{wrong}");
    }
}

#[test]
fn timestamps_keep_milliseconds() {
    let body = "a 1 1699999999999\nb 1 0000000000001699999999998\nc 1\n";
    let sent = read(body).unwrap();
    let times: Vec<&str> = sent
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(times, ["1699999999999", "1699999999998", "1700000000000"]);
}
