//! Events that cancel a fence while it is being carried out.

use std::time::Duration;

use kelpie_e2e::landscape::{ProberConfigFile, ShootCluster, TargetConfig, Timings};
use serde_json::json;
use tokio::time::Instant;

use super::fixture::*;

/// One partition with a separate prober for each case. KCM is scaled after a delay, during which
/// the event happens.
#[tokio::test]
async fn fence_stops_between_steps() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let make = async |name: &'static str, delay: &'static str| {
        let shoot = fixture.shoot(name, &kubelets).await;
        let targets = vec![
            TargetConfig::deployment(MCM, 0, 1),
            TargetConfig::deployment(KCM, 1, 0).down(|rule| rule.delay = Some(delay)),
        ];
        let config = ProberConfigFile::new(timings, targets).only(name);
        let prober = fixture.prober(&config, &[]).await;
        until_healthy(&prober, &shoot).await;
        (shoot, prober)
    };
    let (recovered, _on_recovered) = make("recovered", "90s").await;
    let (hibernated, on_hibernated) = make("hibernated", "90s").await;
    let (terminated, on_terminated) = make("terminated", "90s").await;
    let (rescaled, _on_rescaled) = make("rescaled", "4s").await;

    kubelets.partition(1.0).await;
    let cut = Instant::now();
    for shoot in [&recovered, &hibernated, &terminated, &rescaled] {
        fixture.until_scaled(shoot, MCM, cut, 0).await;
    }
    // The target is read again after the delay, and the record holds the replicas found then.
    rescaled.scale(KCM, 5).await.unwrap();
    let enabled = json!({ "spec": { "hibernation": { "enabled": true } } });
    hibernated.patch_shoot(&enabled).await.unwrap();
    let unprobed = on_hibernated.until_unprobed(&hibernated.name, TIMEOUT);
    unprobed.await.unwrap();
    let exit = on_terminated.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.took < Duration::from_secs(4), "{:?}", exit.took);
    let fenced = fixture.until_scaled(&rescaled, KCM, cut, 0).await;
    assert_eq!(fenced.recorded.as_deref(), Some("5"));

    kubelets.heal().await;
    recovered.until_restored(RESTORED, TIMEOUT).await.unwrap();
    rescaled.until_restored([5, 1, 2], TIMEOUT).await.unwrap();
    for shoot in [&recovered, &hibernated, &terminated] {
        assert_kcm_untouched(&fixture, shoot, cut);
    }
    for shoot in [&hibernated, &terminated] {
        let left = shoot.target(MCM).await.unwrap();
        assert_eq!((left.replicas, left.marked), (0, true), "{}", shoot.name);
        assert_eq!(left.recorded.as_deref(), Some("1"));
    }
    // The next prober finds the record.
    let config = ProberConfigFile::gardener_targets(timings).only(&terminated.name);
    let _successor = fixture.prober(&config, &[]).await;
    terminated.until_restored(RESTORED, TIMEOUT).await.unwrap();
}

fn assert_kcm_untouched(fixture: &Fixture, shoot: &ShootCluster, since: Instant) {
    let mut entries = fixture.timeline.since(&shoot.name, since);
    entries.retain(|entry| entry.name == KCM);
    assert!(entries.is_empty(), "{}: {entries:#?}", shoot.name);
}
