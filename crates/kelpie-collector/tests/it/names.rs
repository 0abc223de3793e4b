//! Names that are not classic: remote write 1.0 does not allow them.

use std::sync::Arc;

use kelpie_collector::{FilterCause, InvalidNames, Pipeline, TransformRules};

use crate::fixture::{NOW, PipelineOutput, run};

const BODY: &str =
    "{\"http.requests\",\"le.x\"=\"1\",a=\"b\"} 1 1699999990000\nok 1 1699999990000\n";

fn with(names: InvalidNames, body: &str) -> PipelineOutput {
    run(TransformRules::new().invalid_names(names), body.as_bytes())
}

#[test]
fn quoted_names_are_escaped_by_default() {
    let outcome = run(TransformRules::new(), BODY.as_bytes());
    assert_eq!(
        outcome.sent(),
        [
            "http_requests{a=\"b\",le_x=\"1\"} 1 1699999990000",
            "ok 1 1699999990000"
        ]
    );
}

#[test]
fn invalid_names_are_dropped_or_kept_by_option() {
    let dropped = with(InvalidNames::Drop, BODY);
    assert_eq!(dropped.sent(), ["ok 1 1699999990000"]);
    assert_eq!(dropped.counts.filtered(FilterCause::InvalidName), 1);
    assert_eq!(dropped.counts.read, 2);
    let kept = with(InvalidNames::Keep, BODY);
    assert_eq!(
        kept.sent()[0],
        "{\"http.requests\",a=\"b\",\"le.x\"=\"1\"} 1 1699999990000"
    );
}

#[test]
fn each_invalid_character_becomes_an_underscore() {
    for (name, escaped) in [("1a", "_a"), ("a1", "a1"), ("ä.ö", "___"), ("a:b", "a:b")] {
        let outcome = with(InvalidNames::Escape, &format!("{{\"{name}\"}} 1\n"));
        assert_eq!(outcome.sent(), [format!("{escaped} 1 {NOW}")], "{name}");
    }
    // A colon belongs to names of metrics only.
    let outcome = with(InvalidNames::Escape, "a{\"b:c\"=\"1\"} 1\n");
    assert_eq!(outcome.sent(), [format!("a{{b_c=\"1\"}} 1 {NOW}")]);
}

#[test]
fn escaping_keeps_labels_sorted_and_unique() {
    let outcome = with(InvalidNames::Escape, "a{\"b.z\"=\"1\",bB=\"2\"} 1\n");
    assert_eq!(outcome.sent(), [format!("a{{bB=\"2\",b_z=\"1\"}} 1 {NOW}")]);
    let outcome = with(InvalidNames::Escape, "a{\"b.z\"=\"1\",b_z=\"2\"} 1\n");
    assert_eq!(outcome.counts.filtered(FilterCause::DuplicateLabel), 1);
}

#[test]
fn results_of_rules_are_escaped() {
    let mut pipeline = Pipeline::new(Arc::default(), Arc::default(), NOW);
    let mut batches = Vec::new();
    let mut out = |batch| batches.push(batch);
    pipeline.push_sample("r", [("a.b", "c")], 1.0, NOW, &mut out);
    pipeline.finish(&mut out).unwrap();
    let sent = batches[0].samples()[0].to_string();
    assert_eq!(sent, format!("r{{a_b=\"c\"}} 1 {NOW}"));
}
