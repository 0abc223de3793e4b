//! A fence that an earlier process left behind is found at startup.

use kelpie_e2e::landscape::{MARKER, RECORD, ShootCluster, Timings};
use serde_json::json;
use tokio::time::Instant;

use super::fixture::*;

/// The earlier process was either Kelpie or dependency-watchdog.
#[tokio::test]
async fn existing_fence_is_lifted_when_nodes_are_healthy() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let fenced = fixture.shoot("fenced", &kubelets).await;
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        mark(&fenced, name, Some(count)).await;
        fenced.scale(name, 0).await.unwrap();
    }
    // The process ended between the record and the scale call.
    let recorded = fixture.shoot("recorded", &kubelets).await;
    mark(&recorded, KCM, Some("3")).await;
    // Scaled down by its owner: without a marker it is left alone.
    let unmarked = fixture.shoot("unmarked", &kubelets).await;
    unmarked.scale(KCM, 0).await.unwrap();
    // Without a record one replica is restored, as dependency-watchdog does.
    let unrecorded = fixture.shoot("unrecorded", &kubelets).await;
    mark(&unrecorded, MCM, None).await;
    unrecorded.scale(MCM, 0).await.unwrap();

    let prober = fixture.gardener_prober(timings).await;

    fenced.until_restored(RESTORED, TIMEOUT).await.unwrap();
    recorded.until_restored(RESTORED, TIMEOUT).await.unwrap();
    unrecorded.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_healthy(&prober, &unmarked).await;
    until_rounds(&prober, 8.0).await;
    assert_eq!(unmarked.replicas().await.unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn existing_fence_stays_while_nodes_are_silent() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.partitioned_kubelets(3, timings).await;
    let shoot = fixture.shoot("fenced", &kubelets).await;
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        mark(&shoot, name, Some(count)).await;
        shoot.scale(name, 0).await.unwrap();
    }
    fixture.until_timeline_caught_up(&shoot).await;
    let start = Instant::now();

    let prober = fixture.gardener_prober(timings).await;
    prober
        .until_verdict(&shoot.name, "fence", TIMEOUT)
        .await
        .unwrap();
    until_rounds(&prober, 4.0).await;
    let changes = fixture.timeline.since(&shoot.name, start);
    assert!(changes.is_empty(), "expected no writes: {changes:#?}");

    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
}

async fn mark(shoot: &ShootCluster, name: &str, record: Option<&str>) {
    shoot.annotate(name, MARKER, &json!("")).await.unwrap();
    if let Some(count) = record {
        shoot.annotate(name, RECORD, &json!(count)).await.unwrap();
    }
}
