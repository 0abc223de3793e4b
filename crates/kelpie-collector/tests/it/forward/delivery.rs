//! Samples reach the hub, each once, whatever the hub does meanwhile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kelpie_collector::{Rules, Success};

use super::hub::Reply;
use super::stage::{INTERVAL, MINUTE, START, Stage, lines};

const NOW: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn every_sample_arrives_once_with_its_labels_time_and_value() {
    let mut stage = Stage::new();
    stage.settings.rules = Rules::new().inject("cluster", "spoke-1").unwrap();
    stage.text(format!("up{{job=\"x\",cluster=\"me\"}} 0.1 {START}\n"));
    let outcome = stage.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    let hub = stage.hub.lock();
    let sample = &hub.series["up{cluster=\"spoke-1\",job=\"x\"}"];
    assert_eq!(*sample, (START, 0.1));
    assert_eq!(hub.stored, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_the_three_headers_and_says_who_it_is_from() {
    let mut stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hunter2\n").unwrap();
    let to = stage.settings.to.as_mut().unwrap();
    to.url = "http://hub/api/metrics/v1/default/api/v1/receive".to_owned();
    to.token = Some(token);
    stage.text(lines("m", 1, NOW));
    stage.tick().await;
    let hub = stage.hub.lock();
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
async fn a_url_without_a_path_means_the_usual_one() {
    let mut stage = Stage::new();
    stage.text(lines("m", 1, NOW));
    stage.tick().await;
    assert_eq!(stage.hub.lock().requests[0].path, "/api/v1/write");
}

#[tokio::test(start_paused = true)]
async fn batches_have_ten_thousand_samples_at_most() {
    let mut stage = Stage::new();
    stage.text(lines("m", 25_000, NOW));
    let outcome = stage.tick().await;
    assert_eq!(outcome.accepted, 25_000);
    assert_eq!(stage.sent(), [10_000, 10_000, 5_000]);
    assert_eq!(stage.hub.lock().series.len(), 25_000);
    assert_eq!(stage.metric("kelpie_collector_samples_sent_total"), 25_000);
    assert_eq!(stage.metric("kelpie_collector_samples_read_total"), 25_000);
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_time_did_not_advance_is_not_sent_again() {
    let mut stage = Stage::new();
    stage.text(lines("m", 3, MINUTE));
    let mut collector = stage.collector();
    collector.tick().await;
    let again = collector.tick().await;
    assert_eq!(again.result, Ok(Success::Sent), "the hub has it");
    assert_eq!((again.accepted, again.tally.unchanged), (0, 3));
    stage.text(lines("m", 3, MINUTE / 2));
    assert_eq!(collector.tick().await.accepted, 3);
    assert_eq!(stage.sent(), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_acknowledged_is_sent_again() {
    let mut stage = Stage::new();
    stage.text(lines("m", 3, MINUTE));
    stage.hub.lock().always = Some(Reply::Status(404, "no receiver here"));
    let mut collector = stage.collector();
    let failed = collector.tick().await;
    assert_eq!(failed.undelivered, 3);
    let said = failed.result.unwrap_err();
    assert_eq!(said, "the hub: it answered 404: no receiver here");
    assert_eq!(stage.sent(), [3], "404 is not asked again");
    stage.hub.lock().always = None;
    assert_eq!(collector.tick().await.accepted, 3);
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_is_waited_out() {
    for trouble in [
        Reply::Status(500, "disk full"),
        Reply::Status(502, ""),
        Reply::Status(503, ""),
        Reply::Status(429, ""),
        Reply::Reset,
        Reply::Silence,
        Reply::TakenAndReset,
    ] {
        let mut stage = Stage::new();
        stage.text(lines("m", 5, NOW));
        stage.hub.lock().script = [trouble.clone(), trouble.clone()].into();
        let outcome = stage.tick().await;
        assert_eq!(outcome.result, Ok(Success::Sent), "{trouble:?}");
        assert_eq!(outcome.accepted, 5);
        assert_eq!(stage.sent().len(), 3, "{trouble:?}");
        assert_eq!(stage.hub.lock().series.len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_down_is_tried_again_for_half_an_interval() {
    let mut stage = Stage::new();
    stage.text(lines("m", 5, NOW));
    stage.hub_down.store(true, Ordering::Relaxed);
    let outcome = stage.tick().await;
    let said = outcome.result.unwrap_err();
    assert_eq!(said, "the hub: hub:80: connection refused");
    let took = stage.began.elapsed();
    assert!(took < INTERVAL / 2, "{took:?}");
    assert!(took > Duration::from_secs(130), "{took:?}");
    let tries = stage.metric("kelpie_collector_write_requests_total{code=\"0\"}");
    assert!((8..30).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_comes_back_gets_the_samples_in_the_same_tick() {
    let mut stage = Stage::new();
    stage.text(lines("m", 5, NOW));
    stage.hub_down.store(true, Ordering::Relaxed);
    let down = std::sync::Arc::clone(&stage.hub_down);
    tokio::spawn(async move {
        tokio::time::sleep(MINUTE).await;
        down.store(false, Ordering::Relaxed);
    });
    assert_eq!(stage.tick().await.result, Ok(Success::Sent));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    // A minute after the start.
    let date = "Tue, 14 Nov 2023 22:14:20 GMT";
    for (status, when) in [(429, "60"), (503, "60"), (429, date), (503, date)] {
        let mut stage = Stage::new();
        stage.text(lines("m", 1, NOW));
        stage.hub.lock().script = [Reply::RetryAfter(status, when)].into();
        assert_eq!(stage.tick().await.accepted, 1);
        let hub = stage.hub.lock();
        let waited = hub.requests[1].at - hub.requests[0].at;
        let off = waited.abs_diff(MINUTE);
        assert!(off < Duration::from_secs(1), "{when}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_that_has_passed_or_makes_no_sense_is_a_usual_pause() {
    for when in ["0", "Tue, 14 Nov 2023 22:13:19 GMT", "soon"] {
        let mut stage = Stage::new();
        stage.text(lines("m", 1, NOW));
        stage.hub.lock().script = [Reply::RetryAfter(429, when)].into();
        assert_eq!(stage.tick().await.accepted, 1, "{when}");
        let waited = stage.began.elapsed();
        assert!(waited < Duration::from_secs(2), "{when}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_gets_ten_seconds() {
    let mut stage = Stage::new();
    stage.text(lines("m", 1, NOW));
    stage.hub.lock().always = Some(Reply::Silence);
    let said = stage.tick().await.result.unwrap_err();
    assert_eq!(said, "the hub: no answer within 10s");
    let hub = stage.hub.lock();
    let waited = hub.requests[1].at - hub.requests[0].at;
    assert!(waited < Duration::from_secs(11), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_for_good_does_not_stop_the_others() {
    let mut stage = Stage::new();
    stage.text(lines("m", 25_000, NOW));
    stage.hub.lock().script = [Reply::Status(403, "no")].into();
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.undelivered), (15_000, 10_000));
    stage.assert_accounted();
    let said = outcome.result.unwrap_err();
    assert_eq!(said, "the hub: it answered 403: no");
}

#[tokio::test(start_paused = true)]
async fn a_slow_hub_does_not_hold_the_source() {
    let mut stage = Stage::new();
    stage.body(super::stage::Body::Endless);
    stage.hub.lock().always = Some(Reply::Silence);
    let outcome = stage.tick().await;
    let said = outcome.message();
    assert!(said.contains("the hub is too slow"), "{said}");
    assert!(
        stage.began.elapsed() < MINUTE,
        "{:?}",
        stage.began.elapsed()
    );
    settle().await;
    assert_eq!(stage.source.open.load(Ordering::Relaxed), 0, "closed");
    // What was read is counted although the tick was aborted, and so is what was under way.
    assert!(outcome.tally.read > 1_000, "{outcome:?}");
    assert_eq!(outcome.undelivered, outcome.tally.sent);
    stage.assert_accounted();
    assert_eq!(
        stage.metric("kelpie_collector_federate_requests_total{kind=\"federate\",code=\"200\"}"),
        1
    );
    assert!(stage.metric("kelpie_collector_write_requests_total{code=\"0\"}") > 1);
}

#[tokio::test(start_paused = true)]
async fn connections_are_kept_for_the_next_request() {
    let mut stage = Stage::new();
    stage.text(lines("m", 25_000, NOW));
    let mut collector = stage.collector();
    assert_eq!(collector.tick().await.accepted, 25_000);
    stage.text(lines("n", 1, NOW));
    assert_eq!(collector.tick().await.accepted, 1);
    let hub = stage.hub.lock();
    assert_eq!((hub.requests.len(), hub.connections), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_idle_for_long_is_not_trusted() {
    let mut stage = Stage::new();
    let mut collector = stage.collector();
    for tick in 1..=3 {
        stage.text(lines(&format!("m{tick}"), 1, NOW));
        assert_eq!(collector.tick().await.accepted, 1);
        assert_eq!(stage.hub.lock().connections, tick);
        tokio::time::sleep(MINUTE).await;
    }
}

/// Lets everything that is due happen.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
