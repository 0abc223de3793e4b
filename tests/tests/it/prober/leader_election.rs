//! Two replicas: the leader acts, and the standby is ready to take over.

use std::time::Duration;

use kelpie_e2e::landscape::{ProberConfigFile, ShootCluster, Timings};
use tokio::time::{Instant, sleep_until};

use super::fixture::*;

/// Counts the scale-downs that a replica has made.
const SCALED_DOWN: &str = r#"kelpie_prober_scale_operations_total{direction="down"}"#;

#[tokio::test]
async fn one_replica_acts_and_standby_fences_after_kill() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let first = fixture.prober(&config, &ELECTION).await;
    until_leading(&first.kelpie).await;
    let second = fixture.prober(&config, &ELECTION).await;
    until_healthy(&first, &shoot).await;
    // A standby observes the cluster as well.
    until_healthy(&second, &shoot).await;
    assert!(!leads(&second.kelpie).await);

    kubelets.partition(1.0).await;
    let cut = Instant::now();
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    second
        .until_verdict(&shoot.name, "fence", TIMEOUT)
        .await
        .unwrap();
    assert_written_once(&fixture, &shoot, cut);
    assert!(second.kelpie.metric(SCALED_DOWN).await.unwrap() < 0.5);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_healthy(&first, &shoot).await;
    until_healthy(&second, &shoot).await;

    kubelets.partition(1.0).await;
    let cut = Instant::now();
    // Killed a second or two before the cluster would trip.
    sleep_until(cut + timings.grace / 2).await;
    first.kelpie.kill();
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    assert_written_once(&fixture, &shoot, cut);
    // It fences whether it leads or not, and restores as the leader.
    assert!(second.kelpie.metric(SCALED_DOWN).await.unwrap() > 2.5);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    assert!(leads(&second.kelpie).await);
}

/// Signals that end a leader, each with the time its successor has to become leader.
const SIGNALS: [(&str, Duration); 2] = [
    ("TERM", Duration::from_secs(1)),
    ("KILL", Duration::from_secs(6)),
];

/// Attempts for each signal. On a loaded machine a single one may be late for other reasons.
const ATTEMPTS: usize = 3;

#[tokio::test]
async fn standby_takes_over_within_limits() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    fixture.shoot("shoot", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let mut leader = fixture.prober(&config, &ELECTION).await;
    until_leading(&leader.kelpie).await;
    for (signal, limit) in SIGNALS {
        let mut gaps = Vec::new();
        while gaps.last().is_none_or(|gap| *gap >= limit) {
            assert!(gaps.len() < ATTEMPTS, "SIG{signal}: {gaps:?}");
            let next = fixture.prober(&config, &ELECTION).await;
            until_ready(&next).await;
            let signalled = Instant::now();
            leader.kelpie.process().signal(signal).unwrap();
            until_leading(&next.kelpie).await;
            gaps.push(signalled.elapsed());
            let exit = leader.kelpie.wait_for_exit(TIMEOUT).await.unwrap();
            assert_eq!(exit.code, (signal == "TERM").then_some(0));
            leader = next;
        }
        println!("SIG{signal}: the successor leads after {gaps:?}");
    }
}

/// Asserts one write to each target, which sets record, marker and replicas together.
fn assert_written_once(fixture: &Fixture, shoot: &ShootCluster, since: Instant) {
    let entries = fixture.timeline.since(&shoot.name, since);
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        let fenced = (0, true, Some(count.to_owned()));
        assert_eq!(states_of(&entries, name), [fenced], "{name}");
    }
}
