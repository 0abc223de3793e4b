//! Two replicas: one acts, the other is ready to.

use std::time::Duration;

use kelpie_e2e::landscape::{Kubelets, Pace, Prober, ProberConfig, Shoot};
use kelpie_e2e::poll;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::stage::*;

pub(super) const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

const DOWN: &str = r#"kelpie_prober_scale_operations_total{direction="down"}"#;

#[tokio::test]
async fn exactly_one_replica_acts_and_no_fence_is_missed_when_it_is_killed_before_it_is_due() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let config = ProberConfig::shipped(pace);
    let first = stage.prober(&config, &ELECTION).await;
    until_leading(&first).await;
    let second = stage.prober(&config, &ELECTION).await;
    until_well(&first, &shoot).await;
    // A standby observes without a gap.
    until_well(&second, &shoot).await;
    assert!(!leads(&second).await);

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    second
        .until_verdict(&shoot.name, "fence", PATIENCE)
        .await
        .unwrap();
    writes_were_made_once(&stage, &shoot, cut);
    assert!(second.kelpie.metric(DOWN).await.unwrap() < 0.5);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&first, &shoot).await;
    until_well(&second, &shoot).await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    // Killed when it would trip in a second or two.
    sleep_until(cut + pace.grace / 2).await;
    first.kelpie.kill();
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    assert!(leads(&second).await);
    writes_were_made_once(&stage, &shoot, cut);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
}

/// How a leader ends, and how soon the next one has to act.
const ENDS: [(&str, Duration); 2] = [
    ("TERM", Duration::from_secs(1)),
    ("KILL", Duration::from_secs(6)),
];

/// A trial is repeated if it was late: on a loaded machine, one may be for reasons of its own.
const TRIALS: usize = 3;

#[tokio::test]
async fn the_next_replica_acts_within_a_second_of_a_sigterm_and_six_of_a_kill() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let config = ProberConfig::shipped(pace);
    let mut leader = stage.prober(&config, &ELECTION).await;
    until_leading(&leader).await;
    for (signal, limit) in ENDS {
        let mut gaps = Vec::new();
        while gaps.last().is_none_or(|gap| *gap >= limit) {
            assert!(gaps.len() < TRIALS, "SIG{signal}: {gaps:?}");
            let next = stage.prober(&config, &ELECTION).await;
            until_well(&next, &shoot).await;
            let ended = Instant::now();
            leader.kelpie.process().signal(signal).unwrap();
            until_leading(&next).await;
            gaps.push(ended.elapsed());
            let exit = leader.kelpie.ended_within(PATIENCE).await.unwrap();
            assert_eq!(exit.code, (signal == "TERM").then_some(0));
            leader = next;
        }
        println!("SIG{signal}: the next acts after {gaps:?}");
    }
}

pub(super) async fn leads(prober: &Prober) -> bool {
    let reply = prober.kelpie.get("/debug/state").await.unwrap();
    let state: Value = serde_json::from_str(&reply.body).unwrap();
    state["leads"] == true
}

pub(super) async fn until_leading(prober: &Prober) {
    let leading = poll::until("a leader", PATIENCE, async || {
        Ok(leads(prober).await.then_some(()))
    });
    leading.await.unwrap();
}

/// A record and a scale call for each target, and nothing twice.
fn writes_were_made_once(stage: &Stage, shoot: &Shoot, since: Instant) {
    let entries = stage.timeline.since(&shoot.name, since);
    for name in [KCM, MCM, CA] {
        let writes = entries.iter().filter(|entry| entry.name == name).count();
        assert_eq!(writes, 2, "{name}: {entries:#?}");
    }
}
