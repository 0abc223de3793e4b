//! The whole story of a partition.

use std::time::Duration;

use kelpie_e2e::ApiServer;
use kelpie_e2e::landscape::{Entry, Kubelets, Pace, Prober, ProberConfig, Shoot, tenant};
use kelpie_e2e::poll;
use serde_json::Value;
use tokio::time::Instant;

use super::stage::*;

#[tokio::test]
async fn a_partition_is_fenced_before_the_deadline_and_restored_exactly_when_the_nodes_are_back() {
    let stage = Stage::start().await;
    let api = ApiServer::start(&stage.seed.plane.etcd, "shoot").await;
    let api = api.unwrap();
    let client = api.client(&api.admin()).await.unwrap();
    let access = tenant(&client, &api, "probe").await.unwrap();
    let pace = Pace::ROOMY;
    let kubelets = Kubelets::start(&client, 20, pace).await.unwrap();
    let way = api.kubeconfig(&access);
    let shoot = stage.shoot_at("shoot--a--b", &way, &kubelets).await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;

    until_well(&prober, &shoot).await;
    nothing_is_logged_on_healthy_rounds(&prober).await;
    assert_untouched(&shoot).await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(pace.grace).await.unwrap();
    let fenced = until_scaled(&stage, &shoot, KCM, cut, 0).await;
    println!(
        "fenced {:?} after the cut, {:?} before the deadline",
        fenced.at - cut,
        deadline.saturating_duration_since(fenced.at)
    );
    assert!(fenced.at < deadline, "{:?} late", fenced.at - deadline);
    every_record_came_before_its_scaling_and_levels_in_order(&stage, &shoot, cut);
    the_fence_is_seen(&stage, &prober, &shoot).await;

    let healed = Instant::now();
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    the_restore_goes_up_the_levels(&stage, &shoot, healed);
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        let controller = shoot.controller(name).await.unwrap();
        assert_eq!(controller.recorded.as_deref(), Some(count), "it stays");
    }
    until_well(&prober, &shoot).await;
    the_release_is_seen(&stage, &prober, &shoot).await;
    decisions_are_logged_when_they_change(&prober);
}

async fn until_scaled(
    stage: &Stage,
    shoot: &Shoot,
    name: &str,
    since: Instant,
    replicas: i32,
) -> Entry {
    let is_it = |entry: &Entry| entry.name == name && entry.replicas == replicas;
    let what = format!("{name} at {replicas}");
    let found = stage
        .timeline
        .until(&what, &shoot.name, since, PATIENCE, is_it);
    found.await.unwrap()
}

async fn nothing_is_logged_on_healthy_rounds(prober: &Prober) {
    let before = prober.log().lines().count();
    until_rounds(prober, 3.0).await;
    assert_eq!(prober.log().lines().count(), before, "{}", prober.log());
}

fn every_record_came_before_its_scaling_and_levels_in_order(
    stage: &Stage,
    shoot: &Shoot,
    cut: Instant,
) {
    let entries = stage.timeline.since(&shoot.name, cut);
    for (name, count) in [(KCM, 3), (MCM, 1), (CA, 2)] {
        let steps: Vec<_> = entries
            .iter()
            .filter(|entry| entry.name == name)
            .map(|entry| (entry.replicas, entry.marked, entry.recorded.clone()))
            .collect();
        let record = Some(count.to_string());
        let expected = [(count, true, record.clone()), (0, true, record)];
        assert_eq!(steps, expected, "{name}");
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
        "level 0 is down before level 1 is touched: {entries:#?}"
    );
}

fn the_restore_goes_up_the_levels(stage: &Stage, shoot: &Shoot, healed: Instant) {
    let entries = stage.timeline.since(&shoot.name, healed);
    let scaled = entries.iter().filter(|entry| entry.replicas > 0);
    let mut order: Vec<&str> = scaled.map(|entry| entry.name.as_str()).collect();
    order.dedup();
    assert_eq!(order, [KCM, MCM, CA], "{entries:#?}");
}

async fn the_fence_is_seen(stage: &Stage, prober: &Prober, shoot: &Shoot) {
    let cluster = &shoot.name;
    let state = prober.until_state("a full fence", cluster, PATIENCE, |state| {
        state["fence"] == "full"
    });
    let state = state.await.unwrap();
    assert_eq!(state["decision"]["verdict"], "fence");
    assert_eq!(state["decision"]["reasons"]["leases"]["candidates"], 20);
    assert!(state["fencedSince"].is_string(), "{state:#}");
    let words = state["inWords"].as_str().unwrap();
    assert!(words.contains("Of 20 candidates"), "{words}");
    assert_eq!(state["troubles"], Value::Array(Vec::new()));

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
    until_event(stage, "garden", "Fencing", cluster).await;
    for name in [KCM, MCM, CA] {
        until_event(stage, cluster, "Fenced", name).await;
    }
}

async fn the_release_is_seen(stage: &Stage, prober: &Prober, shoot: &Shoot) {
    for name in [KCM, MCM, CA] {
        until_event(stage, &shoot.name, "Released", name).await;
    }
    // kubectl looks for the object's uid.
    let describe = ["--namespace", &shoot.name, "describe", "deployment", KCM];
    let described = stage.seed.plane.api.kubectl(&describe).await.unwrap();
    for reason in ["Fenced", "Released"] {
        assert!(described.contains(reason), "{described}");
    }
    until_event(stage, "garden", "Releasing", &shoot.name).await;
    let up = r#"kelpie_prober_scale_operations_total{direction="up"}"#;
    assert!((prober.kelpie.metric(up).await.unwrap() - 3.0).abs() < 0.5);
}

async fn until_event(stage: &Stage, namespace: &str, reason: &str, about: &str) {
    let what = format!("an Event {reason} about {about}");
    let patience = Duration::from_secs(20);
    let found = poll::until(&what, patience, async || {
        let events = stage.seed.events(namespace).await?;
        let is_it =
            |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == about;
        Ok(events.iter().find(is_it).map(|_| ()))
    });
    found.await.unwrap();
}

fn decisions_are_logged_when_they_change(prober: &Prober) {
    let fences = prober.lines(&["verdict=Fence"]);
    assert_eq!(fences.len(), 1, "{fences:#?}");
    let scaled = prober.lines(&["scaled down"]).len() + prober.lines(&["scaled up"]).len();
    assert_eq!(scaled, 6, "{}", prober.log());
}
