//! Every sample reaches the hub once, even if the hub has temporary failures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kelpie_collector::{TickSuccess, TransformRules};

use super::fake_hub::Reply;
use super::fixture::{Body, Fixture, INTERVAL, MINUTE, START, lines};

const NOW: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn sample_arrives_once_with_labels() {
    let mut fixture = Fixture::new();
    fixture.settings.rules = TransformRules::new().inject("cluster", "spoke-1").unwrap();
    fixture.text(format!("up{{job=\"x\",cluster=\"me\"}} 0.1 {START}\n"));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    let hub = fixture.hub.lock();
    let sample = &hub.series["up{cluster=\"spoke-1\",job=\"x\"}"];
    assert_eq!(*sample, (START, 0.1));
    assert_eq!(hub.stored, 1);
}

#[tokio::test(start_paused = true)]
async fn request_has_remote_write_headers() {
    let mut fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hunter2\n").unwrap();
    let to = fixture.settings.to.as_mut().unwrap();
    to.url = "http://hub/api/metrics/v1/default/api/v1/receive".to_owned();
    to.token_file = Some(token);
    fixture.text(lines("m", 1, NOW));
    fixture.tick().await;
    let hub = fixture.hub.lock();
    let request = &hub.requests[0];
    assert_eq!(request.path, "/api/metrics/v1/default/api/v1/receive");
    for (name, value) in [
        ("content-type", "application/x-protobuf"),
        ("content-encoding", "snappy"),
        ("x-prometheus-remote-write-version", "0.1.0"),
        ("authorization", "Bearer hunter2"),
    ] {
        assert_eq!(request.headers[name], value);
    }
    let agent = request.headers["user-agent"].to_str().unwrap();
    assert!(agent.starts_with("kelpie-collector/"), "{agent}");
}

#[tokio::test(start_paused = true)]
async fn url_without_path_gets_default_path() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1, NOW));
    fixture.tick().await;
    assert_eq!(fixture.hub.lock().requests[0].path, "/api/v1/write");
}

#[tokio::test(start_paused = true)]
async fn batches_have_at_most_10000_samples() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 25_000, NOW));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.accepted, 25_000);
    assert_eq!(fixture.sent(), [10_000, 10_000, 5_000]);
    assert_eq!(fixture.hub.lock().series.len(), 25_000);
    assert_eq!(
        fixture.metric("kelpie_collector_samples_sent_total"),
        25_000
    );
    assert_eq!(
        fixture.metric("kelpie_collector_samples_read_total"),
        25_000
    );
}

#[tokio::test(start_paused = true)]
async fn unchanged_series_is_not_sent_again() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 3, MINUTE));
    let mut collector = fixture.collector();
    collector.tick().await;
    let again = collector.tick().await;
    assert_eq!(again.result, Ok(TickSuccess::Sent), "the hub has it");
    assert_eq!((again.accepted, again.counts.unchanged), (0, 3));
    fixture.text(lines("m", 3, MINUTE / 2));
    assert_eq!(collector.tick().await.accepted, 3);
    assert_eq!(fixture.sent(), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn unacknowledged_samples_are_sent_again() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 3, MINUTE));
    fixture.hub.lock().always = Some(Reply::Status(404, "no receiver here"));
    let mut collector = fixture.collector();
    let failed = collector.tick().await;
    assert_eq!(failed.undelivered, 3);
    let message = failed.result.unwrap_err();
    assert_eq!(message, "hub: HTTP 404: no receiver here");
    assert_eq!(fixture.sent(), [3], "404 is not retried");
    fixture.hub.lock().always = None;
    assert_eq!(collector.tick().await.accepted, 3);
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried() {
    for failure in [
        Reply::Status(500, "disk full"),
        Reply::Status(502, ""),
        Reply::Status(503, ""),
        Reply::Status(429, ""),
        Reply::Reset,
        Reply::Silence,
        Reply::StoreAndReset,
    ] {
        let mut fixture = Fixture::new();
        fixture.text(lines("m", 5, NOW));
        fixture.hub.lock().script = [failure.clone(), failure.clone()].into();
        let outcome = fixture.tick().await;
        assert_eq!(outcome.result, Ok(TickSuccess::Sent), "{failure:?}");
        assert_eq!(outcome.accepted, 5);
        assert_eq!(fixture.sent().len(), 3, "{failure:?}");
        assert_eq!(fixture.hub.lock().series.len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_hub_is_retried_for_half_interval() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 5, NOW));
    fixture.hub_down.store(true, Ordering::Relaxed);
    let outcome = fixture.tick().await;
    let message = outcome.result.unwrap_err();
    assert_eq!(message, "hub: hub:80: connection refused");
    let took = fixture.started.elapsed();
    assert!(took < INTERVAL / 2, "{took:?}");
    assert!(took > Duration::from_secs(130), "{took:?}");
    let tries = fixture.metric("kelpie_collector_write_requests_total{code=\"error\"}");
    assert!((8..30).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn recovered_hub_gets_samples_in_same_tick() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 5, NOW));
    fixture.hub_down.store(true, Ordering::Relaxed);
    let down = std::sync::Arc::clone(&fixture.hub_down);
    tokio::spawn(async move {
        tokio::time::sleep(MINUTE).await;
        down.store(false, Ordering::Relaxed);
    });
    assert_eq!(fixture.tick().await.result, Ok(TickSuccess::Sent));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    // One minute after the start.
    let date = "Tue, 14 Nov 2023 22:14:20 GMT";
    for (status, when) in [(429, "60"), (503, "60"), (429, date), (503, date)] {
        let mut fixture = Fixture::new();
        fixture.text(lines("m", 1, NOW));
        fixture.hub.lock().script = [Reply::RetryAfter(status, when)].into();
        assert_eq!(fixture.tick().await.accepted, 1);
        let hub = fixture.hub.lock();
        let waited = hub.requests[1].at - hub.requests[0].at;
        let off = waited.abs_diff(MINUTE);
        assert!(off < Duration::from_secs(1), "{when}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn useless_retry_after_means_normal_backoff() {
    for when in ["0", "Tue, 14 Nov 2023 22:13:19 GMT", "soon"] {
        let mut fixture = Fixture::new();
        fixture.text(lines("m", 1, NOW));
        fixture.hub.lock().script = [Reply::RetryAfter(429, when)].into();
        assert_eq!(fixture.tick().await.accepted, 1, "{when}");
        let waited = fixture.started.elapsed();
        assert!(waited < Duration::from_secs(2), "{when}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_times_out_after_ten_seconds() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1, NOW));
    fixture.hub.lock().always = Some(Reply::Silence);
    let message = fixture.tick().await.result.unwrap_err();
    assert_eq!(message, "hub: no response within 10s");
    let hub = fixture.hub.lock();
    let waited = hub.requests[1].at - hub.requests[0].at;
    assert!(waited < Duration::from_secs(11), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_batch_does_not_stop_others() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 25_000, NOW));
    fixture.hub.lock().script = [Reply::Status(403, "no")].into();
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.undelivered), (15_000, 10_000));
    fixture.assert_accounted();
    let message = outcome.result.unwrap_err();
    assert_eq!(message, "hub: HTTP 403: no");
}

#[tokio::test(start_paused = true)]
async fn slow_hub_does_not_block_source() {
    let mut fixture = Fixture::new();
    fixture.body(Body::Endless);
    fixture.hub.lock().always = Some(Reply::Silence);
    let outcome = fixture.tick().await;
    let message = outcome.message();
    assert!(message.contains("the hub is too slow"), "{message}");
    assert!(
        fixture.started.elapsed() < MINUTE,
        "{:?}",
        fixture.started.elapsed()
    );
    settle().await;
    assert_eq!(fixture.source.open.load(Ordering::Relaxed), 0, "closed");
    // Samples of an aborted tick are counted, and so are requests in flight.
    assert!(outcome.counts.read > 1_000, "{outcome:?}");
    assert_eq!(outcome.undelivered, outcome.counts.sent);
    fixture.assert_accounted();
    assert_eq!(
        fixture.metric("kelpie_collector_federate_requests_total{kind=\"federate\",code=\"200\"}"),
        1
    );
    assert!(fixture.metric("kelpie_collector_write_requests_total{code=\"error\"}") > 1);
}

#[tokio::test(start_paused = true)]
async fn workers_keep_order_of_a_series() {
    for workers in [2, 4] {
        let mut fixture = Fixture::new();
        fixture.settings.matchers = vec!["one".into(), "two".into()];
        fixture.settings.workers = workers;
        // Both selectors match these series. They are scraped between the two responses.
        let (old, new) = (lines("both", 500, MINUTE), lines("both", 500, NOW));
        let parts = vec![format!("{old}{}", lines("one", 8_000, NOW)), String::new()];
        fixture.bodies(vec![
            ("one", Body::Paced(Duration::from_secs(1), parts)),
            (
                "two",
                Body::Text(format!("{new}{}", lines("two", 500, NOW))),
            ),
        ]);
        let outcome = fixture.tick().await;
        assert_eq!(outcome.refused(), 0, "{workers} workers");
        assert_eq!(outcome.result, Ok(TickSuccess::Sent));
        assert_eq!(fixture.hub.lock().series.len(), 9_000, "{workers} workers");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_reused() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 25_000, NOW));
    let mut collector = fixture.collector();
    assert_eq!(collector.tick().await.accepted, 25_000);
    fixture.text(lines("n", 1, NOW));
    assert_eq!(collector.tick().await.accepted, 1);
    let hub = fixture.hub.lock();
    assert_eq!((hub.requests.len(), hub.connections), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn long_idle_connection_is_not_reused() {
    let mut fixture = Fixture::new();
    let mut collector = fixture.collector();
    for tick in 1..=3 {
        fixture.text(lines(&format!("m{tick}"), 1, NOW));
        assert_eq!(collector.tick().await.accepted, 1);
        assert_eq!(fixture.hub.lock().connections, tick);
        tokio::time::sleep(MINUTE).await;
    }
}

/// Runs everything that is due.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
