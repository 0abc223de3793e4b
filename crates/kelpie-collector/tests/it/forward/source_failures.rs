//! Responses of the source, and the result of their tick.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kelpie_collector::{Collector, InvalidNames, TickSuccess, TransformRules};

use super::delivery::settle;
use super::fixture::{Body, Fixture, INTERVAL, START, endless_lines, lines};

const NOW: Duration = Duration::ZERO;

async fn failure_for(body: Body) -> String {
    let mut fixture = Fixture::new();
    fixture.body(body);
    let message = fixture.tick().await.result.unwrap_err();
    settle().await;
    assert_eq!(fixture.source.open.load(Ordering::Relaxed), 0, "closed");
    message
}

#[tokio::test(start_paused = true)]
async fn error_status_is_reported() {
    let message = failure_for(Body::Status(400, "1:1: parse error")).await;
    assert_eq!(message, "source: /federate: HTTP 400: 1:1: parse error");
    let message = failure_for(Body::Status(403, "")).await;
    assert!(message.contains("--from-token-file"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn unreachable_source_is_reported() {
    let mut fixture = Fixture::new();
    fixture.source_down.store(true, Ordering::Relaxed);
    let message = fixture.tick().await.result.unwrap_err();
    assert_eq!(message, "source: /federate: source:80: connection refused");
    let requests = "kelpie_collector_federate_requests_total{kind=\"federate\",code=\"error\"}";
    assert_eq!(fixture.metric(requests), 3, "retried");
}

#[tokio::test(start_paused = true)]
async fn transient_source_failure_is_retried() {
    for failure in [
        Body::Status(503, "busy"),
        Body::Status(429, "busy"),
        Body::Silence,
    ] {
        let mut fixture = Fixture::new();
        fixture.text(lines("m", 3, NOW));
        fixture.source.script.lock().unwrap().push_back(failure);
        let outcome = fixture.tick().await;
        assert_eq!(outcome.result, Ok(TickSuccess::Sent));
        assert_eq!(outcome.accepted, 3);
    }
    let mut fixture = Fixture::new();
    fixture.body(Body::Status(400, "parse error"));
    assert!(fixture.tick().await.result.is_err());
    assert_eq!(fixture.source.requests.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hung_source_leaves_time_for_other_queries() {
    let mut fixture = Fixture::new();
    // Selectors that do not fit into one request.
    let long = |name: &str| format!("{name}{{a=\"{}\"}}", "x".repeat(40_000));
    fixture.settings.matchers = vec![long("bad"), long("good")];
    fixture.bodies(vec![
        ("bad", Body::Silence),
        ("good", Body::Text(lines("good", 3, NOW))),
    ]);
    let outcome = fixture.tick().await;
    assert_eq!(outcome.accepted, 3);
    let message = outcome.result.unwrap_err();
    assert_eq!(message, "source: /federate: no response within 60s");
    let took = fixture.started.elapsed();
    assert!(took < INTERVAL * 2 / 3, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn stalled_body_ends_early() {
    let mut fixture = Fixture::new();
    fixture.body(Body::Stalled(lines("m", 3, NOW)));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.accepted, 3);
    let message = outcome.result.unwrap_err();
    assert_eq!(message, "source: /federate: the body stalled for 60s");
    assert_eq!(fixture.started.elapsed(), Duration::from_mins(1));
    settle().await;
    assert_eq!(fixture.source.open.load(Ordering::Relaxed), 0, "closed");
}

#[tokio::test(start_paused = true)]
async fn aborted_body_fails_tick_after_complete_lines() {
    let mut fixture = Fixture::new();
    let whole = lines("m", 3, NOW);
    fixture.body(Body::Broken(format!("{whole}m{{n=\"4")));
    let outcome = fixture.tick().await;
    let message = outcome.result.unwrap_err();
    assert!(
        message.starts_with("source: /federate: source:80: the connection was lost"),
        "{message}"
    );
    assert_eq!(outcome.accepted, 3);
}

#[tokio::test(start_paused = true)]
async fn truncated_body_fails_tick() {
    let mut fixture = Fixture::new();
    let text = lines("m", 3, NOW);
    fixture.text(&text[..text.len() - 2]);
    let outcome = fixture.tick().await;
    let message = outcome.result.unwrap_err();
    assert!(message.contains("truncated within line 3"), "{message}");
    assert_eq!(outcome.accepted, 2, "a half number is another number");
}

#[tokio::test(start_paused = true)]
async fn malformed_body_fails_tick() {
    let message = failure_for(Body::Text("<html>\n".to_owned())).await;
    assert!(message.contains("line 1"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn body_over_limit_fails_tick() {
    let mut fixture = Fixture::new();
    fixture.body(Body::Endless);
    fixture.settings.limit_bytes = 1_000_000;
    let message = fixture.tick().await.result.unwrap_err();
    assert!(
        message.contains("larger than --limit-bytes 1000000"),
        "{message}"
    );
    settle().await;
    assert_eq!(fixture.source.open.load(Ordering::Relaxed), 0, "closed");
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_tick_share_limit() {
    let mut fixture = Fixture::new();
    fixture.settings.matchers = vec!["one".into(), "two".into()];
    fixture.settings.workers = 2;
    let (one, two) = (lines("one", 50, NOW), lines("two", 50, NOW));
    fixture.settings.limit_bytes = (one.len() + two.len()) as u64;
    fixture.bodies(vec![("one", Body::Text(one)), ("two", Body::Text(two))]);
    assert_eq!(fixture.tick().await.result, Ok(TickSuccess::Sent));
    fixture.settings.limit_bytes -= 1;
    assert!(fixture.tick().await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn tick_ends_with_its_interval() {
    let mut fixture = Fixture::new();
    fixture.body(endless_lines());
    let outcome = fixture.tick().await;
    assert_eq!(fixture.started.elapsed(), INTERVAL);
    let message = outcome.message();
    let expected = "the tick did not finish within its interval of 300s: \
        the source has not sent everything";
    assert_eq!(message, expected);
    // Everything until then is counted.
    assert!(outcome.counts.read > 5, "{outcome:?}");
    assert_eq!(outcome.undelivered, outcome.counts.read);
    let requests = "kelpie_collector_federate_requests_total{kind=\"federate\",code=\"200\"}";
    assert_eq!(fixture.metric(requests), 1);
    fixture.assert_accounted();
}

#[tokio::test(start_paused = true)]
async fn failed_request_does_not_stop_others() {
    let mut fixture = Fixture::new();
    fixture.settings.matchers = vec!["bad".into(), "good".into()];
    fixture.settings.workers = 2;
    fixture.bodies(vec![
        ("bad", Body::Status(500, "oh")),
        ("good", Body::Text(lines("good", 3, NOW))),
    ]);
    let outcome = fixture.tick().await;
    assert_eq!(outcome.accepted, 3);
    let message = outcome.result.unwrap_err();
    assert_eq!(message, "source: /federate: HTTP 500: oh");
}

#[tokio::test(start_paused = true)]
async fn selectors_are_spread_over_requests() {
    let mut fixture = Fixture::new();
    fixture.settings.matchers = (0..5_000)
        .map(|number| format!("{{__name__=\"a_metric_with_a_name_that_is_long_{number}\"}}"))
        .collect();
    fixture.text(lines("m", 1, NOW));
    assert_eq!(
        fixture.tick().await.accepted,
        1,
        "overlapping ones are sent once"
    );
    let requests = fixture.source.requests.lock().unwrap();
    assert!(requests.len() > 5, "{}", requests.len());
    assert!(requests.iter().all(|path| path.len() < 65_000));
    let matchers: usize = requests
        .iter()
        .map(|path| path.matches("match%5B%5D=").count())
        .sum();
    assert_eq!(matchers, 5_000);
}

#[tokio::test(start_paused = true)]
async fn rule_results_are_sent_under_rule_name() {
    let mut fixture = Fixture::new();
    fixture.text("");
    let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"up","job":"x"},"value":[1700000000,"2.5"]}]}}"#;
    fixture.rule("job:up:sum", "up", 200, vector);
    assert_eq!(fixture.tick().await.result, Ok(TickSuccess::Sent));
    let hub = fixture.hub.lock();
    assert_eq!(hub.series["job:up:sum{job=\"x\"}"], (START, 2.5));
}

#[tokio::test(start_paused = true)]
async fn invalid_rule_name_is_escaped_or_rejected() {
    let mut fixture = Fixture::new();
    fixture.text("");
    let vector =
        r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"1"]}]}}"#;
    fixture.rule("1bad", "up", 200, vector);
    fixture.tick().await;
    assert!(fixture.hub.lock().series.contains_key("_bad{}"));
    fixture.settings.rules = TransformRules::new().invalid_names(InvalidNames::Drop);
    let clock = || kelpie_core::Time::from_micros(0);
    let registry = &mut prometheus_client::registry::Registry::default();
    let rejected = Collector::new(fixture.settings.clone(), clock, |_| {}, registry);
    let error = rejected.err().unwrap().to_string();
    assert!(error.contains("1bad"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn failed_rule_does_not_stop_others() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1, NOW));
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#;
    fixture.rule("one", "one", 422, "{\"error\":\"too many\"}");
    fixture.rule("two", "two", 200, scalar);
    let vector =
        r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"1"]}]}}"#;
    fixture.rule("three", "three", 200, vector);
    let outcome = fixture.tick().await;
    assert_eq!(outcome.accepted, 2);
    let message = outcome.result.unwrap_err();
    for part in [
        "recording rule one: HTTP 422",
        "recording rule two: the result is a scalar",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("three"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn empty_tick_succeeds_unless_something_failed() {
    let mut fixture = Fixture::new();
    fixture.text("");
    assert_eq!(fixture.tick().await.result, Ok(TickSuccess::Nothing));
    assert!(fixture.sent().is_empty());
    fixture.rule("r", "r", 500, "");
    assert!(fixture.tick().await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn only_misdated_samples_fail_tick() {
    for off in [-86_400_001, 300_001] {
        let mut fixture = Fixture::new();
        fixture.text(format!("a 1 {}\n", START + off));
        let outcome = fixture.tick().await;
        assert_eq!(
            outcome.message(),
            "nothing left to send: samples are older than a day or more than five minutes ahead; \
             compare the clock of this host with the source's"
        );
        assert!(outcome.result.is_err());
        fixture.assert_accounted();
    }
}

#[tokio::test(start_paused = true)]
async fn compressed_body_is_reported() {
    let mut fixture = Fixture::new();
    fixture.body(Body::Encoded("gzip"));
    let message = fixture.tick().await.result.unwrap_err();
    let expected = "source: /federate: the response is compressed (gzip), which was not requested";
    assert_eq!(message, expected);
    fixture.body(Body::Encoded("identity"));
    let message = fixture.tick().await.result.unwrap_err();
    assert!(
        message.contains("line 1 of the source's response") || message.contains("truncated"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn misdated_samples_are_counted() {
    let mut fixture = Fixture::new();
    let (day, ahead) = (START - 86_400_001, START + 300_001);
    fixture.text(format!("a 1 {day}\nb 1 {ahead}\nc 1 {START}\n"));
    assert_eq!(fixture.tick().await.accepted, 1);
    for cause in ["old", "future"] {
        let name = format!("kelpie_collector_samples_filtered_total{{cause=\"{cause}\"}}");
        assert_eq!(fixture.metric(&name), 1);
    }
}
