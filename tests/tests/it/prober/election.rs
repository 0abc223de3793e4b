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

/// What a loaded machine adds to a time that is measured here.
const SLACK: Duration = Duration::from_millis(700);

const DOWN: &str = r#"kelpie_prober_scale_operations_total{direction="down"}"#;

#[tokio::test]
async fn exactly_one_replica_acts_and_the_next_takes_over_in_time() {
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

    let asked = Instant::now();
    let (ended, ()) = tokio::join!(first.kelpie.stop(), until_leading(&second));
    let (ended, gap) = (ended.unwrap(), asked.elapsed());
    println!(
        "SIGTERM: ended after {:?}, the next acts after {gap:?}",
        ended.took
    );
    assert_eq!(ended.code, Some(0));
    assert!(ended.took < Duration::from_secs(3) + SLACK);
    assert!(gap < Duration::from_secs(1) + SLACK, "{gap:?}");

    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&second, &shoot).await;
    let third = stage.prober(&config, &ELECTION).await;
    until_well(&third, &shoot).await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    // Killed when it would trip in a second or two.
    sleep_until(cut + pace.grace / 2).await;
    let killed = Instant::now();
    drop(second);
    until_leading(&third).await;
    let gap = killed.elapsed();
    println!("SIGKILL: the next acts after {gap:?}");
    assert!(gap < Duration::from_secs(6) + SLACK, "{gap:?}");
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    writes_were_made_once(&stage, &shoot, cut);

    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
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
