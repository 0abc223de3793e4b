//! Injected, elided and renamed labels and metrics, and dropped samples.

use kelpie_collector::{FilterCause, TransformRuleError, TransformRules};

use crate::fixture::{NOW, run};

fn sent(rules: TransformRules, body: &str) -> Vec<String> {
    let outcome = run(rules, body.as_bytes());
    assert_eq!(outcome.result, Ok(()));
    outcome.sent()
}

fn rules() -> TransformRules {
    let rules = TransformRules::new().inject("cluster", "spoke").unwrap();
    let rules = rules.inject("clusterID", "7f1c").unwrap();
    rules.elide("prometheus").unwrap()
}

#[test]
fn injected_labels_override_spoofed_ones() {
    let body = "a{cluster=\"me\",clusterID=\"\",x=\"y\"} 1\n\
                b{cluster=\"p\",cluster=\"q\",__name__=\"c\"} 1\n";
    assert_eq!(
        sent(rules(), body),
        [
            r#"a{cluster="spoke",clusterID="7f1c",x="y"} 1 1700000000000"#,
            r#"b{cluster="spoke",clusterID="7f1c"} 1 1700000000000"#,
        ]
    );
}

#[test]
fn labels_are_sorted_elided_and_nonempty() {
    let body = "a{z=\"1\",prometheus=\"p\",Z=\"2\",instance=\"\",_=\"3\",cluster_name=\"4\"} 1\n";
    assert_eq!(
        sent(rules(), body),
        ["a{Z=\"2\",_=\"3\",cluster=\"spoke\",clusterID=\"7f1c\",\
             cluster_name=\"4\",z=\"1\"} 1 1700000000000"]
    );
}

#[test]
fn names_with_common_prefix_are_distinct() {
    let body = "a{clusterIDx=\"1\",prometheus_=\"2\",prometheu=\"3\",clusterI=\"4\"} 1\n";
    assert_eq!(
        sent(rules(), body),
        [
            "a{cluster=\"spoke\",clusterI=\"4\",clusterID=\"7f1c\",clusterIDx=\"1\",\
             prometheu=\"3\",prometheus_=\"2\"} 1 1700000000000"
        ]
    );
}

#[test]
fn renamed_metric_keeps_labels() {
    let rules = TransformRules::new().rename("old", "new:name").unwrap();
    let body = "old{x=\"y\"} 1\nolder 2\n";
    assert_eq!(
        sent(rules, body),
        [
            r#"new:name{x="y"} 1 1700000000000"#,
            "older 2 1700000000000"
        ]
    );
}

#[test]
fn duplicate_label_drops_sample() {
    let body = "a{x=\"1\",y=\"2\",x=\"3\"} 1\nb{x=\"\",x=\"1\"} 1\n";
    let outcome = run(TransformRules::new(), body.as_bytes());
    assert_eq!(outcome.counts.filtered(FilterCause::DuplicateLabel), 1);
    assert_eq!(outcome.sent(), [r#"b{x="1"} 1 1700000000000"#]);
    assert_eq!(outcome.counts.read, 2);
}

#[test]
fn misdated_samples_are_dropped_and_counted() {
    let (day, minutes) = (24 * 60 * 60 * 1000, 5 * 60 * 1000);
    let body = format!(
        "a 1 {}\nb 1 {}\nc 1 {}\nd 1 {}\ne 1 0\n",
        NOW - day,
        NOW - day - 1,
        NOW + minutes,
        NOW + minutes + 1,
    );
    let outcome = run(TransformRules::new(), body.as_bytes());
    let sent = outcome.sent();
    assert!(sent[0].starts_with("a ") && sent[1].starts_with("c "));
    assert_eq!((sent.len(), outcome.counts.sent), (2, 2));
    assert_eq!(outcome.counts.filtered(FilterCause::Old), 2);
    assert_eq!(outcome.counts.filtered(FilterCause::Future), 1);
}

#[test]
fn invalid_rules_are_rejected() {
    type Make = fn(TransformRules) -> Result<TransformRules, TransformRuleError>;
    let cases: [(Make, &str); 7] = [
        (
            |rules| rules.inject("1a", "x"),
            "\"1a\" is not a valid label name",
        ),
        (
            |rules| rules.elide("a:b"),
            "\"a:b\" is not a valid label name",
        ),
        (
            |rules| rules.elide("__name__"),
            "\"__name__\" is not a valid label name",
        ),
        (
            |rules| rules.inject("a", ""),
            "label a has no value to inject",
        ),
        (
            |rules| rules.elide("cluster"),
            "label cluster is listed twice",
        ),
        (
            |rules| rules.rename("a", ""),
            "\"\" is not a valid metric name",
        ),
        (
            |rules| rules.rename("a", "b")?.rename("a", "c"),
            "metric a is renamed twice",
        ),
    ];
    for (make, expected) in cases {
        let error = make(rules()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
