//! What a real Prometheus refuses.

use std::sync::Arc;

use http::{HeaderMap, Method};
use kelpie_collector::{Pipeline, Rules, Seen};
use kelpie_e2e::MetricsServer;
use kelpie_net::{Connection, Endpoint};

use super::stage::{Scripted, lines, now_ms, once};

const FLAGS: [&str; 1] = ["--match=m"];

#[tokio::test]
async fn a_sample_that_is_out_of_order_costs_only_itself() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let now = now_ms();
    let source = Scripted::source(lines("m", 300, now - 60_000)).await;
    let (code, text) = once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(
        (code, text.contains("300 samples sent")),
        (Some(0), true),
        "{text}"
    );

    // One series goes back in time, one has another value for the same time; the others go on.
    let next = lines("m", 300, now)
        .replace(
            &format!("n=\"7\"}} 7 {now}"),
            &format!("n=\"7\"}} 7 {}", now - 90_000),
        )
        .replace(
            &format!("n=\"9\"}} 9 {now}"),
            &format!("n=\"9\"}} 8 {}", now - 60_000),
        );
    source.change(move |_| (200, next.clone()));
    let (code, text) = once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("298 samples sent, 2 refused"), "{text}");

    let stored = hub.query("m[1h]").await.unwrap();
    assert_eq!(stored.len(), 300);
    for (labels, samples) in stored {
        let refused = ["7", "9"].contains(&labels["n"].as_str());
        assert_eq!(samples.len(), if refused { 1 } else { 2 }, "{labels:?}");
    }
}

#[tokio::test]
async fn a_sample_from_the_future_that_makes_the_hub_refuse_all_does_not_look_well() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let now = now_ms();
    // Ours drops it; somebody else may not.
    let ahead = now + 3 * 3_600_000;
    write(&hub, &format!("other 1 {ahead}\n"), ahead).await;

    let source = Scripted::source(lines("m", 300, now)).await;
    let (code, text) = once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("refuses more than half of the samples"),
        "{text}"
    );
    assert!(text.contains("out of bounds"), "{text}");
}

#[tokio::test]
async fn samples_behind_the_window_are_refused_with_a_500_that_is_no_trouble_of_the_hub() {
    let config = "global: {}\nstorage: { tsdb: { out_of_order_time_window: 10m } }\n";
    let flags = ["--web.enable-remote-write-receiver"];
    let hub = MetricsServer::prometheus(config, &flags).await.unwrap();
    let now = now_ms();
    let first = Scripted::source(lines("m", 10, now)).await;
    assert_eq!(once(first.url(), &hub.url(), &FLAGS).await.0, Some(0));
    let within = Scripted::source(lines("m", 10, now - 60_000)).await;
    assert_eq!(once(within.url(), &hub.url(), &FLAGS).await.0, Some(0));
    let behind = Scripted::source(lines("m", 10, now - 1_800_000)).await;
    let (code, text) = once(behind.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("too old sample"), "{text}");
}

#[tokio::test]
async fn a_hub_that_takes_no_writes_is_named() {
    let hub = MetricsServer::prometheus("global: {}\n", &[])
        .await
        .unwrap();
    let source = Scripted::source(lines("m", 1, now_ms())).await;
    let (code, text) = once(source.url(), &hub.url(), &FLAGS).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("404: remote write receiver needs to be enabled"),
        "{text}"
    );
}

/// Writes past the collector, as somebody whose clock says `now`.
async fn write(hub: &MetricsServer, text: &str, now: i64) {
    let mut pipeline = Pipeline::new(Arc::new(Rules::new()), Arc::new(Seen::default()), now);
    let mut batches = Vec::new();
    pipeline
        .feed(text.as_bytes(), &mut |batch| batches.push(batch))
        .unwrap();
    pipeline.finish(&mut |batch| batches.push(batch)).unwrap();
    let endpoint = Endpoint::new(&hub.url(), None).unwrap();
    let mut connection = Connection::open(&endpoint).await.unwrap();
    let headers = HeaderMap::new();
    let body = batches[0].encoded();
    let sent = connection.send(Method::POST, "/api/v1/write", &headers, body);
    assert_eq!(sent.await.unwrap().status.as_u16(), 204);
}
