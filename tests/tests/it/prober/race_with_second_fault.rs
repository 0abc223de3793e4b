//! The prober races a real kube-controller-manager while something else breaks, too.

use std::time::Duration;

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{ProberConfigFile, Timings, gardener_args};
use kelpie_e2e::race::{GuardedClusters, Race, RaceOptions, RaceReplicas, ReplicaOptions, report};
use tempfile::TempDir;

use super::fixture::*;

/// If the calls of a fence take longer than this, the machine is too slow to win the race.
const SLOW: Duration = Duration::from_secs(1);

/// Control for the other tests: the proxies cost no race.
#[tokio::test]
async fn partition_alone_is_fenced_in_time() {
    assert_race_is_won("none", 1).await;
}

#[tokio::test]
async fn slow_seed_is_fenced_earlier() {
    assert_race_is_won("seed-latency=1s", 1).await;
}

#[tokio::test]
async fn api_server_away_at_trip_delays_no_fence() {
    assert_race_is_won("shoot-away=4s@T+500ms", 1).await;
}

#[tokio::test]
async fn rotation_is_noticed_without_watches() {
    assert_race_is_won("rotation+watch-drop=10s@T-3s", 1).await;
}

#[tokio::test]
async fn standby_fences_for_killed_leader() {
    assert_race_is_won("leader-kill@T", 2).await;
}

/// Runs one trial with this fault. `cargo xtask bench race` is the long variant with real timings.
async fn assert_race_is_won(fault: &str, replicas: usize) {
    let timings = Timings::ROOMY;
    let options = RaceOptions {
        timings,
        node_counts: vec![5],
        clusters: 1,
        pod_stop: Duration::from_millis(500),
        settle: timings.renewal * 5,
        proxied: true,
        guarded: GuardedClusters::NotAlone,
        rng_seed: 1,
    };
    let race = Race::start(&options).await.unwrap();
    let logs = TempDir::new().unwrap();
    let binary = kelpie::binary().unwrap().display().to_string();
    // Leaders are elected with these durations, if there are several replicas.
    let election = &ELECTION[1..];
    let options = ReplicaOptions {
        command: [vec![binary], gardener_args()].concat(),
        flags: election.iter().map(ToString::to_string).collect(),
        count: replicas,
        config: ProberConfigFile::gardener_targets(timings),
        kubeconfig: race.kubeconfig().unwrap(),
        log: logs.path().join("prober.log"),
    };
    let replicas = RaceReplicas::start(options).await.unwrap();
    let fault = fault.parse().unwrap();
    let trials = race.run_with_fault(fault, 1, &replicas, |trial| println!("{}", trial.line()));
    let trials = trials.await.unwrap();

    println!("{}", report::fault_table(&trials));
    for trial in trials {
        let log = replicas.log().await;
        assert!(trial.is_winnable, "{trial:#?}");
        assert!(trial.fenced_at.is_some(), "no fence: {log}");
        assert!(trial.is_restored_exactly, "not restored: {log}");
        let is_slow = trial.baseline >= SLOW;
        assert!(is_slow || trial.unknown_count() == 0, "{trial:#?}\n{log}");
    }
}
