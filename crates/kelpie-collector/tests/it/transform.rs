//! What becomes of a sample on its way.

use kelpie_collector::{Cause, RuleError, Rules};

use crate::rig::{NOW, run};

fn sent(rules: Rules, body: &str) -> Vec<String> {
    let outcome = run(rules, body.as_bytes());
    assert_eq!(outcome.result, Ok(()));
    outcome.sent()
}

fn rules() -> Rules {
    let rules = Rules::new().inject("cluster", "spoke").unwrap();
    let rules = rules.inject("clusterID", "7f1c").unwrap();
    rules.elide("prometheus").unwrap()
}

#[test]
fn our_labels_override_spoofed_ones() {
    let body = "a{cluster=\"me\",clusterID=\"\",x=\"y\"} 1\nb{cluster=\"p\",cluster=\"q\",__name__=\"c\"} 1\n";
    assert_eq!(
        sent(rules(), body),
        [
            r#"a{cluster="spoke",clusterID="7f1c",x="y"} 1 1700000000000"#,
            r#"b{cluster="spoke",clusterID="7f1c"} 1 1700000000000"#,
        ]
    );
}

#[test]
fn labels_are_sorted_and_those_elided_or_without_a_value_are_gone() {
    let body = "a{z=\"1\",prometheus=\"p\",Z=\"2\",instance=\"\",_=\"3\",cluster_name=\"4\"} 1\n";
    assert_eq!(
        sent(rules(), body),
        ["a{Z=\"2\",_=\"3\",cluster=\"spoke\",clusterID=\"7f1c\",\
             cluster_name=\"4\",z=\"1\"} 1 1700000000000"]
    );
}

#[test]
fn names_with_a_common_beginning_are_told_apart() {
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
fn a_metric_is_renamed_and_keeps_its_labels() {
    let rules = Rules::new().rename("old", "new:name").unwrap();
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
fn a_sample_with_two_labels_of_one_name_is_dropped_and_counted() {
    let body = "a{x=\"1\",y=\"2\",x=\"3\"} 1\nb{x=\"\",x=\"1\"} 1\n";
    let outcome = run(Rules::new(), body.as_bytes());
    assert_eq!(outcome.tally.filtered(Cause::DuplicateLabel), 1);
    assert_eq!(outcome.sent(), [r#"b{x="1"} 1 1700000000000"#]);
    assert_eq!(outcome.tally.read, 2);
}

#[test]
fn a_sample_older_than_a_day_or_five_minutes_ahead_is_dropped_and_counted() {
    let (day, minutes) = (24 * 60 * 60 * 1000, 5 * 60 * 1000);
    let body = format!(
        "a 1 {}\nb 1 {}\nc 1 {}\nd 1 {}\ne 1 0\n",
        NOW - day,
        NOW - day - 1,
        NOW + minutes,
        NOW + minutes + 1,
    );
    let outcome = run(Rules::new(), body.as_bytes());
    let sent = outcome.sent();
    assert!(sent[0].starts_with("a ") && sent[1].starts_with("c "));
    assert_eq!((sent.len(), outcome.tally.sent), (2, 2));
    assert_eq!(outcome.tally.filtered(Cause::Old), 2);
    assert_eq!(outcome.tally.filtered(Cause::Future), 1);
}

#[test]
fn rules_that_cannot_be_followed_are_refused() {
    type Make = fn(Rules) -> Result<Rules, RuleError>;
    let cases: [(Make, &str); 7] = [
        (
            |rules| rules.inject("1a", "x"),
            "\"1a\" cannot be the name of a label",
        ),
        (
            |rules| rules.elide("a:b"),
            "\"a:b\" cannot be the name of a label",
        ),
        (
            |rules| rules.elide("__name__"),
            "\"__name__\" cannot be the name",
        ),
        (
            |rules| rules.inject("a", ""),
            "label a is to be injected without a value",
        ),
        (
            |rules| rules.elide("cluster"),
            "label cluster is named twice",
        ),
        (
            |rules| rules.rename("a", ""),
            "\"\" cannot be the name of a metric",
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
