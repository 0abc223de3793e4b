//! A partition from start to end: fence, reports, restore.

use std::time::Duration;

use kelpie_e2e::KubeApiServer;
use kelpie_e2e::landscape::{
    Kubelets, ProberConfigFile, ProberProcess, ShootCluster, Timings, create_tenant_user,
};
use serde_json::Value;
use tokio::time::Instant;

use super::fixture::*;

#[tokio::test]
async fn partition_is_fenced_in_time_and_restored() {
    let fixture = Fixture::start().await;
    let api = KubeApiServer::start(&fixture.seed.control_plane.etcd, "shoot").await;
    let api = api.unwrap();
    let client = api.client(&api.admin()).await.unwrap();
    let access = create_tenant_user(&client, &api, "probe").await.unwrap();
    let timings = Timings::ROOMY;
    let kubelets = Kubelets::start(&client, 20, timings).await.unwrap();
    let kubeconfig = api.kubeconfig(&access);
    let shoot = fixture.shoot_with_kubeconfig("shoot--a--b", &kubeconfig, &kubelets);
    let shoot = shoot.await;
    let prober = fixture
        .prober(&ProberConfigFile::gardener_targets(timings), &[])
        .await;

    until_healthy(&prober, &shoot).await;
    assert_healthy_rounds_log_nothing(&prober).await;
    assert_untouched(&shoot).await;

    kubelets.partition(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(timings.grace).await.unwrap();
    let fenced = fixture.until_scaled(&shoot, KCM, cut, 0).await;
    println!(
        "fenced {:?} after the cut, {:?} before the deadline",
        fenced.at - cut,
        deadline.saturating_duration_since(fenced.at)
    );
    assert!(fenced.at < deadline, "{:?} late", fenced.at - deadline);
    assert_recorded_with_fence_in_level_order(&fixture, &shoot, cut);
    assert_fence_reported(&fixture, &prober, &shoot).await;

    let healed = Instant::now();
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    assert_restored_in_level_order(&fixture, &shoot, healed);
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        let controller = shoot.target(name).await.unwrap();
        assert_eq!(
            controller.recorded.as_deref(),
            Some(count),
            "the record stays"
        );
    }
    until_healthy(&prober, &shoot).await;
    assert_release_reported(&fixture, &prober, &shoot).await;
    assert_decisions_logged_once(&prober);
}

async fn assert_healthy_rounds_log_nothing(prober: &ProberProcess) {
    let before = prober.log().lines().count();
    until_rounds(prober, 3.0).await;
    assert_eq!(prober.log().lines().count(), before, "{}", prober.log());
}

fn assert_recorded_with_fence_in_level_order(
    fixture: &Fixture,
    shoot: &ShootCluster,
    cut: Instant,
) {
    let entries = fixture.timeline.since(&shoot.name, cut);
    for (name, count) in [(KCM, 3), (MCM, 1), (CA, 2)] {
        let record = Some(count.to_string());
        let expected = [(0, true, record)];
        assert_eq!(states_of(&entries, name), expected, "{name}: one write");
    }
    let at_zero = |name: &str| {
        let mut found = entries.iter();
        found
            .position(|entry| entry.name == name && entry.replicas == 0)
            .unwrap()
    };
    let last = entries.iter().position(|entry| entry.name == KCM).unwrap();
    assert!(
        at_zero(MCM) < last && at_zero(CA) < last,
        "level 0 must be down before level 1 is touched: {entries:#?}"
    );
}

fn assert_restored_in_level_order(fixture: &Fixture, shoot: &ShootCluster, healed: Instant) {
    let entries = fixture.timeline.since(&shoot.name, healed);
    let scaled = entries.iter().filter(|entry| entry.replicas > 0);
    let mut order: Vec<&str> = scaled.map(|entry| entry.name.as_str()).collect();
    order.dedup();
    assert_eq!(order, [KCM, MCM, CA], "{entries:#?}");
}

async fn assert_fence_reported(fixture: &Fixture, prober: &ProberProcess, shoot: &ShootCluster) {
    let cluster = &shoot.name;
    let state = prober.until_state("a full fence", cluster, TIMEOUT, |state| {
        state["fence"] == "full"
    });
    let state = state.await.unwrap();
    assert_eq!(state["decision"]["verdict"], "fence");
    assert_eq!(state["decision"]["reasons"]["leases"]["candidates"], 20);
    assert!(state["fencedSince"].is_string(), "{state:#}");
    let words = state["inWords"].as_str().unwrap();
    assert!(words.contains("of 20 leases expired"), "{words}");
    assert_eq!(state["problems"], Value::Array(Vec::new()));

    let labels = format!(r#"{{cluster="{cluster}"}}"#);
    let fence = format!(r#"kelpie_prober_verdict{{cluster="{cluster}",verdict="fence"}}"#);
    for (name, expected) in [
        ("kelpie_prober_active_probes".to_owned(), 1.0..=1.0),
        (fence, 1.0..=1.0),
        (
            r#"kelpie_prober_scale_operations_total{direction="down"}"#.to_owned(),
            3.0..=3.0,
        ),
        (format!("kelpie_prober_expired_fraction{labels}"), 0.6..=1.0),
        (format!("kelpie_prober_candidates{labels}"), 20.0..=20.0),
        (
            format!("kelpie_prober_last_fence_margin_seconds{labels}"),
            0.0..=12.0,
        ),
        (
            format!("kelpie_prober_fenced_seconds{labels}"),
            0.001..=600.0,
        ),
        (
            "kelpie_prober_trip_to_fence_seconds_count".to_owned(),
            3.0..=3.0,
        ),
    ] {
        let value = prober.kelpie.metric(&name).await.unwrap();
        assert!(expected.contains(&value), "{name} {value}");
    }
    until_reported(fixture, "garden", "Fencing", cluster).await;
    for name in [KCM, MCM, CA] {
        until_reported(fixture, cluster, "Fenced", name).await;
    }
}

async fn assert_release_reported(fixture: &Fixture, prober: &ProberProcess, shoot: &ShootCluster) {
    for name in [KCM, MCM, CA] {
        until_reported(fixture, &shoot.name, "Released", name).await;
    }
    // kubectl finds Events by the object's UID.
    let describe = ["--namespace", &shoot.name, "describe", "deployment", KCM];
    let described = fixture
        .seed
        .control_plane
        .api
        .kubectl(&describe)
        .await
        .unwrap();
    for reason in ["Fenced", "Released"] {
        assert!(described.contains(reason), "{described}");
    }
    until_reported(fixture, "garden", "Releasing", &shoot.name).await;
    let up = r#"kelpie_prober_scale_operations_total{direction="up"}"#;
    assert!((prober.kelpie.metric(up).await.unwrap() - 3.0).abs() < 0.5);
}

/// Waits for an Event with this reason about the object called `about`.
async fn until_reported(fixture: &Fixture, namespace: &str, reason: &str, about: &str) {
    let timeout = Duration::from_secs(20);
    until_event(&fixture.seed, namespace, reason, about, timeout).await;
}

fn assert_decisions_logged_once(prober: &ProberProcess) {
    let fences = prober.lines(&["verdict=Fence"]);
    assert_eq!(fences.len(), 1, "{fences:#?}");
    let scaled = prober.lines(&["scaled down"]).len() + prober.lines(&["scaled up"]).len();
    assert_eq!(scaled, 6, "{}", prober.log());
}
