//! Responses of the hub that are cut, slow or large.

use std::time::Duration;

use kelpie_collector::TickSuccess;

use super::fake_hub::Reply;
use super::fixture::{Fixture, INTERVAL, lines};

const NOW: Duration = Duration::ZERO;

/// Delivers five samples to a hub that replies this way once.
async fn deliver(reply: Reply) -> (Fixture, kelpie_collector::TickOutcome) {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 5, NOW));
    fixture.hub.lock().script = [reply].into();
    let outcome = fixture.tick().await;
    (fixture, outcome)
}

#[tokio::test(start_paused = true)]
async fn status_counts_without_its_whole_body() {
    for reply in [Reply::CutBody(200, "stor"), Reply::HungBody(200, "stor")] {
        let (fixture, outcome) = deliver(reply.clone()).await;
        assert_eq!(outcome.result, Ok(TickSuccess::Sent), "{reply:?}");
        assert_eq!(outcome.accepted, 5, "{reply:?}");
        assert_eq!(fixture.sent(), [5], "{reply:?}: not sent again");
        let ok = fixture.metric("kelpie_collector_write_requests_total{code=\"200\"}");
        assert_eq!(ok, 1, "{reply:?}");
    }
    for reply in [Reply::CutBody(403, "no"), Reply::HungBody(403, "no")] {
        let (fixture, outcome) = deliver(reply.clone()).await;
        let message = outcome.result.unwrap_err();
        assert_eq!(message, "hub: HTTP 403: no", "{reply:?}");
        assert_eq!(fixture.sent(), [5], "{reply:?}: not sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn hung_body_of_success_costs_a_second() {
    let (fixture, outcome) = deliver(Reply::HungBody(200, "")).await;
    assert_eq!(outcome.accepted, 5);
    let took = fixture.started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn start_of_long_error_decides() {
    let text = "out of bounds\n";
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 2, NOW));
    fixture.hub.lock().always = Some(Reply::LongBody(409, text, 70_000));
    let outcome = fixture.tick().await;
    let message = outcome.result.unwrap_err();
    let expected = "the hub refused more than half of the samples: HTTP 409: out of bounds";
    assert_eq!(message, expected);
    assert_eq!(fixture.sent(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn long_head_is_read() {
    let (fixture, outcome) = deliver(Reply::LongHead(40_000)).await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!(fixture.hub.lock().stored, 5);
}

#[tokio::test(start_paused = true)]
async fn uncompressed_response_is_requested() {
    let (fixture, _) = deliver(Reply::Status(204, "")).await;
    let hub = fixture.hub.lock();
    assert_eq!(hub.requests[0].headers["accept-encoding"], "identity");
}

#[tokio::test(start_paused = true)]
async fn path_of_url_is_kept() {
    for (url, path) in [
        ("http://hub", "/api/v1/write"),
        ("http://hub/", "/"),
        ("http://hub/a/", "/a/"),
    ] {
        let mut fixture = Fixture::new();
        fixture.settings.to.as_mut().unwrap().url = url.to_owned();
        fixture.text(lines("m", 1, NOW));
        fixture.tick().await;
        assert_eq!(fixture.hub.lock().requests[0].path, path);
    }
}

#[tokio::test(start_paused = true)]
async fn pause_applies_to_all_batches() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 40_000, NOW));
    fixture.settings.workers = 2;
    fixture.hub.lock().always = Some(Reply::RetryAfter(429, "3600"));
    let mut collector = fixture.collector();
    let outcome = collector.tick().await;
    let requests = fixture.sent().len();
    assert!(requests <= 2, "{requests} requests, one of each worker");
    assert_eq!(outcome.undelivered, 40_000);
    let message = outcome.result.unwrap_err();
    assert!(message.starts_with("hub: HTTP 429: later"), "{message}");
    fixture.assert_accounted();
}

#[tokio::test(start_paused = true)]
async fn pause_outlives_tick() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1, NOW));
    fixture.hub.lock().script = [Reply::RetryAfter(503, "900")].into();
    let mut collector = fixture.collector();
    collector.tick().await.result.unwrap_err();
    for _ in 0..2 {
        tokio::time::sleep(INTERVAL).await;
        let message = collector.tick().await.result.unwrap_err();
        assert_eq!(
            message,
            "hub: waiting as the hub asked with Retry-After: HTTP 503: later"
        );
        assert_eq!(fixture.sent().len(), 1, "no request during the pause");
    }
    tokio::time::sleep(INTERVAL).await;
    assert_eq!(collector.tick().await.accepted, 1);
}

#[tokio::test(start_paused = true)]
async fn down_hub_gets_few_requests() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 400_000, NOW));
    fixture.hub.lock().always = Some(Reply::Status(500, "disk full"));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.result.unwrap_err(), "hub: HTTP 500: disk full");
    let requests = fixture.sent().len();
    // Those of one batch with its retries, and of two more batches.
    assert!(requests < 30, "{requests} requests for 40 batches");
    assert_eq!(outcome.undelivered, 400_000);
}

#[tokio::test(start_paused = true)]
async fn one_failing_batch_does_not_stop_others() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 30_000, NOW));
    fixture.hub.lock().refuse_series = Some("m{n=\"0\"}".to_owned());
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.undelivered), (20_000, 10_000));
    assert_eq!(outcome.result.unwrap_err(), "hub: HTTP 500: poisoned");
}

#[tokio::test(start_paused = true)]
async fn every_5xx_is_retried_whatever_its_text() {
    for (status, text) in [
        (500, "lease is too old"),
        (500, "the replica is out of order"),
        (501, "not implemented"),
        (507, "out of bounds"),
    ] {
        let (fixture, outcome) = deliver(Reply::Status(status, text)).await;
        assert_eq!(outcome.accepted, 5, "{status} {text}");
        assert_eq!(fixture.sent(), [5, 5], "{status} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_400_costs_only_its_samples() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1_000, NOW));
    fixture.hub.lock().limited_series = Some("m{n=\"7\"}".to_owned());
    let mut collector = fixture.collector();
    let outcome = collector.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (999, 1));
    let refused = "kelpie_collector_samples_refused_total{cause=\"rejected\"}";
    assert_eq!(fixture.metric(refused), 1);
}

#[tokio::test(start_paused = true)]
async fn small_413_is_not_halved() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 6, NOW));
    fixture.hub.lock().always = Some(Reply::Status(413, "too large"));
    let outcome = fixture.tick().await;
    assert_eq!(fixture.sent(), [6]);
    assert_eq!(outcome.refused(), 6);
    assert!(outcome.result.unwrap_err().contains("413"));
}
