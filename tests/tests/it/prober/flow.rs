//! What comes in between while a fence is being made.

use std::time::Duration;

use kelpie_e2e::landscape::{Entry, Kubelets, Pace, ProberConfig, Shoot, Target};
use serde_json::json;
use tokio::time::Instant;

use super::stage::*;

/// One partition, a prober for each row. KCM's turn comes late: its delay is the time in between.
#[tokio::test]
async fn a_flow_ends_at_a_step_boundary_when_the_verdict_the_shoot_or_the_process_does() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let make = async |name: &'static str, delay: &'static str| {
        let shoot = stage.shoot(name, &kubelets).await;
        let targets = vec![
            Target::deployment(MCM, 0, 1),
            Target::deployment(KCM, 1, 0).down(|rule| rule.delay = Some(delay)),
        ];
        let config = ProberConfig::of(pace, targets).only(name);
        let prober = stage.prober(&config, &[]).await;
        until_well(&prober, &shoot).await;
        (shoot, prober)
    };
    let (flipped, _on_flipped) = make("flipped", "90s").await;
    let (hibernated, on_hibernated) = make("hibernated", "90s").await;
    let (ended, on_ended) = make("ended", "90s").await;
    let (rescaled, _on_rescaled) = make("rescaled", "4s").await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    for shoot in [&flipped, &hibernated, &ended, &rescaled] {
        let is_down = |entry: &Entry| entry.name == MCM && entry.replicas == 0;
        let down = stage
            .timeline
            .until("MCM at 0", &shoot.name, cut, PATIENCE, is_down);
        down.await.unwrap();
    }
    // The delay ends in another look: what is recorded is what is there then.
    rescaled.scale(KCM, 5).await.unwrap();
    let enabled = json!({ "spec": { "hibernation": { "enabled": true } } });
    hibernated.edit(&enabled).await.unwrap();
    let gone = on_hibernated.until_unprobed(&hibernated.name, PATIENCE);
    gone.await.unwrap();
    let exit = on_ended.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.took < Duration::from_secs(4), "{:?}", exit.took);
    let is_fenced = |entry: &Entry| entry.name == KCM && entry.replicas == 0;
    let fenced = stage
        .timeline
        .until("KCM at 0", &rescaled.name, cut, PATIENCE, is_fenced);
    assert_eq!(fenced.await.unwrap().recorded.as_deref(), Some("5"));

    kubelets.heal().await;
    flipped.until_restored(RESTORED, PATIENCE).await.unwrap();
    rescaled.until_restored([5, 1, 2], PATIENCE).await.unwrap();
    for shoot in [&flipped, &hibernated, &ended] {
        kcm_was_never_touched(&stage, shoot, cut);
    }
    for shoot in [&hibernated, &ended] {
        let left = shoot.controller(MCM).await.unwrap();
        assert_eq!((left.replicas, left.marked), (0, true), "{}", shoot.name);
        assert_eq!(left.recorded.as_deref(), Some("1"));
    }
    // Whoever starts next finds the record.
    let config = ProberConfig::shipped(pace).only(&ended.name);
    let _successor = stage.prober(&config, &[]).await;
    ended.until_restored(RESTORED, PATIENCE).await.unwrap();
}

fn kcm_was_never_touched(stage: &Stage, shoot: &Shoot, since: Instant) {
    let mut entries = stage.timeline.since(&shoot.name, since);
    entries.retain(|entry| entry.name == KCM);
    assert!(entries.is_empty(), "{}: {entries:#?}", shoot.name);
}
