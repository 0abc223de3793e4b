//! Samples that a real Prometheus rejects.

use std::sync::Arc;

use http::{HeaderMap, Method};
use kelpie_collector::{DedupTable, Pipeline, TransformRules};
use kelpie_e2e::MetricsServer;
use kelpie_net::{Endpoint, HttpConnection};

use super::fixture::{ScriptedServer, exposition, now_ms, run_once};

const FLAGS: [&str; 1] = ["--match=m"];

#[tokio::test]
async fn out_of_order_sample_affects_no_others() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let now = now_ms();
    let source = ScriptedServer::source(exposition("m", 300, now - 60_000)).await;
    let (code, text) = run_once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(
        (code, text.contains("300 samples sent")),
        (Some(0), true),
        "{text}"
    );

    // One series goes back in time, one has a different value for the same time, and the others are
    // valid.
    let next = exposition("m", 300, now)
        .replace(
            &format!("n=\"7\"}} 7 {now}"),
            &format!("n=\"7\"}} 7 {}", now - 90_000),
        )
        .replace(
            &format!("n=\"9\"}} 9 {now}"),
            &format!("n=\"9\"}} 8 {}", now - 60_000),
        );
    source.set_script(move |_| (200, next.clone()));
    let (code, text) = run_once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("298 samples sent, 2 refused"), "{text}");

    let stored = hub.query("m[1h]").await.unwrap();
    assert_eq!(stored.len(), 300);
    for (labels, samples) in stored {
        let rejected = ["7", "9"].contains(&labels["n"].as_str());
        assert_eq!(samples.len(), if rejected { 1 } else { 2 }, "{labels:?}");
    }
}

#[tokio::test]
async fn future_sample_that_blocks_hub_is_failure() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let now = now_ms();
    // The collector drops such samples, but another client may not.
    let ahead = now + 3 * 3_600_000;
    write(&hub, &format!("other 1 {ahead}\n"), ahead).await;

    let source = ScriptedServer::source(exposition("m", 300, now)).await;
    let (code, text) = run_once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("refused more than half of the samples"),
        "{text}"
    );
    assert!(text.contains("out of bounds"), "{text}");
}

#[tokio::test]
async fn samples_older_than_window_are_rejected() {
    let config = "global: {}\nstorage: { tsdb: { out_of_order_time_window: 10m } }\n";
    let flags = ["--web.enable-remote-write-receiver"];
    let hub = MetricsServer::prometheus(config, &flags).await.unwrap();
    let now = now_ms();
    let first = ScriptedServer::source(exposition("m", 10, now)).await;
    assert_eq!(run_once(first.url(), &hub.url(), &FLAGS).await.0, Some(0));
    let within = ScriptedServer::source(exposition("m", 10, now - 60_000)).await;
    assert_eq!(run_once(within.url(), &hub.url(), &FLAGS).await.0, Some(0));
    let behind = ScriptedServer::source(exposition("m", 10, now - 1_800_000)).await;
    let (code, text) = run_once(behind.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("too old sample"), "{text}");
}

#[tokio::test]
async fn disabled_remote_write_receiver_is_reported() {
    let hub = MetricsServer::prometheus("global: {}\n", &[])
        .await
        .unwrap();
    let source = ScriptedServer::source(exposition("m", 1, now_ms())).await;
    let (code, text) = run_once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("404: remote write receiver needs to be enabled"),
        "{text}"
    );
}

/// Writes to the hub without the collector, as a client whose clock shows `now`.
async fn write(hub: &MetricsServer, text: &str, now: i64) {
    let mut pipeline = Pipeline::new(
        Arc::new(TransformRules::new()),
        Arc::new(DedupTable::default()),
        now,
    );
    let mut batches = Vec::new();
    pipeline
        .feed(text.as_bytes(), &mut |batch| batches.push(batch))
        .unwrap();
    pipeline.finish(&mut |batch| batches.push(batch)).unwrap();
    let endpoint = Endpoint::new(&hub.url(), None).unwrap();
    let mut connection = HttpConnection::open(&endpoint).await.unwrap();
    let headers = HeaderMap::new();
    let body = batches[0].encoded();
    let sent = connection.send(Method::POST, "/api/v1/write", &headers, body);
    assert_eq!(sent.await.unwrap().status.as_u16(), 204);
}
