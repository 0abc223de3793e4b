//! What the source answers, and what a collector makes of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kelpie_collector::Success;

use super::delivery::settle;
use super::stage::{Body, INTERVAL, START, Stage, lines};

const NOW: Duration = Duration::ZERO;

async fn why(body: Body) -> String {
    let mut stage = Stage::new();
    stage.body(body);
    let said = stage.tick().await.result.unwrap_err();
    settle().await;
    assert_eq!(stage.source.open.load(Ordering::Relaxed), 0, "closed");
    said
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_success_is_named() {
    let said = why(Body::Status(400, "1:1: parse error")).await;
    assert_eq!(
        said,
        "the source: /federate: it answered 400: 1:1: parse error"
    );
    let said = why(Body::Status(403, "")).await;
    assert!(said.contains("--from-token-file"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_down_is_named() {
    let mut stage = Stage::new();
    stage.source_down.store(true, Ordering::Relaxed);
    let said = stage.tick().await.result.unwrap_err();
    assert_eq!(said, "the source: /federate: source:80: connection refused");
    let requests = "kelpie_collector_federate_requests_total{kind=\"federate\",code=\"0\"}";
    assert_eq!(stage.metric(requests), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_fails_the_tick_and_what_was_whole_is_sent() {
    let mut stage = Stage::new();
    let whole = lines("m", 3, NOW);
    stage.body(Body::Broken(format!("{whole}m{{n=\"4")));
    let outcome = stage.tick().await;
    let said = outcome.result.unwrap_err();
    assert!(
        said.starts_with("the source: /federate: source:80: the connection broke off"),
        "{said}"
    );
    assert_eq!(outcome.accepted, 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_in_the_middle_of_a_line_was_cut() {
    let mut stage = Stage::new();
    let text = lines("m", 3, NOW);
    stage.text(&text[..text.len() - 2]);
    let outcome = stage.tick().await;
    let said = outcome.result.unwrap_err();
    assert!(said.contains("cut in the middle of line 3"), "{said}");
    assert_eq!(outcome.accepted, 2, "a half number is another number");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_text_of_a_prometheus_fails_the_tick() {
    let said = why(Body::Text("<html>\n".to_owned())).await;
    assert!(said.contains("line 1"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_is_a_failure_and_never_a_silent_cut() {
    let mut stage = Stage::new();
    stage.body(Body::Endless);
    stage.settings.limit_bytes = 1_000_000;
    let said = stage.tick().await.result.unwrap_err();
    assert!(said.contains("larger than --limit-bytes 1000000"), "{said}");
    settle().await;
    assert_eq!(stage.source.open.load(Ordering::Relaxed), 0, "closed");
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_for_all_requests_of_a_tick_together() {
    let mut stage = Stage::new();
    stage.settings.matchers = vec!["one".into(), "two".into()];
    stage.settings.workers = 2;
    let (one, two) = (lines("one", 50, NOW), lines("two", 50, NOW));
    stage.settings.limit_bytes = (one.len() + two.len()) as u64;
    stage.bodies(vec![("one", Body::Text(one)), ("two", Body::Text(two))]);
    assert_eq!(stage.tick().await.result, Ok(Success::Sent));
    stage.settings.limit_bytes -= 1;
    assert!(stage.tick().await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_tick_ends_with_its_interval() {
    for (body, code, read) in [
        (Body::Silence, 0, 0),
        (Body::Stalled(lines("m", 3, NOW)), 200, 3),
    ] {
        let mut stage = Stage::new();
        stage.body(body);
        let outcome = stage.tick().await;
        assert_eq!(stage.began.elapsed(), INTERVAL);
        let said = outcome.message();
        let expected = "the tick has not ended within its interval of 300s: the source has not sent everything";
        assert_eq!(said, expected);
        settle().await;
        assert_eq!(stage.source.open.load(Ordering::Relaxed), 0, "closed");
        // All that happened until then is counted.
        assert_eq!((outcome.tally.read, outcome.undelivered), (read, read));
        let requests = "kelpie_collector_federate_requests_total";
        let requests = format!("{requests}{{kind=\"federate\",code=\"{code}\"}}");
        assert_eq!(stage.metric(&requests), 1);
        let undelivered = stage.metric("kelpie_collector_samples_undelivered_total");
        assert_eq!(undelivered, read);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_does_not_stop_the_others() {
    let mut stage = Stage::new();
    stage.settings.matchers = vec!["bad".into(), "good".into()];
    stage.settings.workers = 2;
    stage.bodies(vec![
        ("bad", Body::Status(500, "oh")),
        ("good", Body::Text(lines("good", 3, NOW))),
    ]);
    let outcome = stage.tick().await;
    assert_eq!(outcome.accepted, 3);
    let said = outcome.result.unwrap_err();
    assert_eq!(said, "the source: /federate: it answered 500: oh");
}

#[tokio::test(start_paused = true)]
async fn selectors_are_spread_over_requests_that_are_short_enough() {
    let mut stage = Stage::new();
    stage.settings.matchers = (0..5_000)
        .map(|number| format!("{{__name__=\"a_metric_with_a_name_that_is_long_{number}\"}}"))
        .collect();
    stage.text(lines("m", 1, NOW));
    assert_eq!(
        stage.tick().await.accepted,
        1,
        "overlapping ones are sent once"
    );
    let requests = stage.source.requests.lock().unwrap();
    assert!(requests.len() > 5, "{}", requests.len());
    assert!(requests.iter().all(|path| path.len() < 65_000));
    let matchers: usize = requests
        .iter()
        .map(|path| path.matches("match%5B%5D=").count())
        .sum();
    assert_eq!(matchers, 5_000);
}

#[tokio::test(start_paused = true)]
async fn the_results_of_recording_rules_are_sent_under_their_names() {
    let mut stage = Stage::new();
    stage.text("");
    let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"up","job":"x"},"value":[1700000000,"2.5"]}]}}"#;
    stage.rule("job:up:sum", "up", 200, vector);
    assert_eq!(stage.tick().await.result, Ok(Success::Sent));
    let hub = stage.hub.lock();
    assert_eq!(hub.series["job:up:sum{job=\"x\"}"], (START, 2.5));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_fails_is_named_and_the_others_are_sent() {
    let mut stage = Stage::new();
    stage.text(lines("m", 1, NOW));
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#;
    stage.rule("one", "one", 422, "{\"error\":\"too many\"}");
    stage.rule("two", "two", 200, scalar);
    let vector =
        r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"1"]}]}}"#;
    stage.rule("three", "three", 200, vector);
    let outcome = stage.tick().await;
    assert_eq!(outcome.accepted, 2);
    let said = outcome.result.unwrap_err();
    for part in [
        "recording rule one: it answered 422",
        "recording rule two: its result is a scalar",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("three"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn nothing_matched_is_a_success_only_if_nothing_failed() {
    let mut stage = Stage::new();
    stage.text("");
    assert_eq!(stage.tick().await.result, Ok(Success::Nothing));
    assert!(stage.sent().is_empty());
    stage.rule("r", "r", 500, "");
    assert!(stage.tick().await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn samples_that_are_all_out_of_time_are_not_taken_for_none() {
    for off in [-86_400_001, 300_001] {
        let mut stage = Stage::new();
        stage.text(format!("a 1 {}\n", START + off));
        let outcome = stage.tick().await;
        assert_eq!(
            outcome.message(),
            "nothing is left to send: samples are older than a day or more than five minutes ahead; \
             compare the clock here with the source's"
        );
        assert!(outcome.result.is_err());
        stage.assert_accounted();
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_compressed_unasked_is_named() {
    let mut stage = Stage::new();
    stage.body(Body::Encoded("gzip"));
    let said = stage.tick().await.result.unwrap_err();
    let expected =
        "the source: /federate: its answer is compressed (gzip), which was not asked for";
    assert_eq!(said, expected);
    stage.body(Body::Encoded("identity"));
    let said = stage.tick().await.result.unwrap_err();
    assert!(
        said.contains("line 1 of the source's answer") || said.contains("cut"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_or_too_far_ahead_is_counted_and_not_sent() {
    let mut stage = Stage::new();
    let (day, ahead) = (START - 86_400_001, START + 300_001);
    stage.text(format!("a 1 {day}\nb 1 {ahead}\nc 1 {START}\n"));
    assert_eq!(stage.tick().await.accepted, 1);
    for cause in ["old", "future"] {
        let name = format!("kelpie_collector_samples_filtered_total{{cause=\"{cause}\"}}");
        assert_eq!(stage.metric(&name), 1);
    }
}
