//! A guard against a real kube-controller-manager: no node turns Unknown without a permit, whatever
//! else breaks, and a node that dies alone does.

use std::time::Duration;

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{ProberConfigFile, Timings, gardener_args};
use kelpie_e2e::race::{GuardedClusters, Race, RaceOptions, RaceReplicas, ReplicaOptions};
use tempfile::TempDir;

/// The guard is armed within this time, and each node has renewed.
const SETTLE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn partition_loses_no_node() {
    assert_no_node_is_lost("none").await;
}

#[tokio::test]
async fn prober_killed_at_the_cut_loses_no_node() {
    assert_no_node_is_lost("prober-kill").await;
}

#[tokio::test]
async fn seed_away_from_the_cut_on_loses_no_node() {
    assert_no_node_is_lost("seed-away=60s").await;
}

#[tokio::test]
async fn stalled_api_server_loses_no_node() {
    assert_no_node_is_lost("shoot-stall=20s").await;
}

#[tokio::test]
async fn restarted_api_server_loses_no_node() {
    assert_no_node_is_lost("shoot-restart@T").await;
}

#[tokio::test]
async fn refused_credentials_lose_no_node() {
    assert_no_node_is_lost("credentials-refused").await;
}

#[tokio::test]
async fn dead_node_turns_unknown_as_early_as_without_guard() {
    let timings = Timings::ROOMY;
    let race = Race::start(&options(timings, GuardedClusters::EveryOther))
        .await
        .unwrap();
    let logs = TempDir::new().unwrap();
    let replicas = start_prober(&race, timings, &logs).await;
    let lost = race.lose_nodes(3).await.unwrap();
    let median = |is_guarded: bool| {
        let own = lost.iter().filter(|lost| lost.is_guarded == is_guarded);
        let mut times: Vec<Duration> = own.map(|lost| lost.unknown_after).collect();
        times.sort();
        times[times.len() / 2]
    };
    println!("{lost:?}");
    let log = replicas.log().await;
    assert!(log.contains("guard: armed"), "{log}");
    assert!(
        median(true) < median(false) + Duration::from_secs(2),
        "{lost:?}\n{log}"
    );
}

fn options(timings: Timings, guarded: GuardedClusters) -> RaceOptions {
    RaceOptions {
        timings,
        node_counts: vec![5],
        clusters: match guarded {
            GuardedClusters::EveryOther => 2,
            GuardedClusters::All | GuardedClusters::NotAlone => 1,
        },
        pod_stop: Duration::from_millis(500),
        settle: SETTLE,
        proxied: guarded == GuardedClusters::All,
        guarded,
        rng_seed: 1,
    }
}

async fn start_prober(race: &Race, timings: Timings, logs: &TempDir) -> RaceReplicas {
    let binary = kelpie::binary().unwrap().display().to_string();
    let options = ReplicaOptions {
        command: [vec![binary], gardener_args()].concat(),
        flags: Vec::new(),
        count: 1,
        config: ProberConfigFile::new(timings, Vec::new()).line("guard: {}"),
        kubeconfig: race.kubeconfig().unwrap(),
        log: logs.path().join("prober.log"),
    };
    RaceReplicas::start(options).await.unwrap()
}

/// Runs one partition of four grace periods with this fault. `cargo xtask bench race -- --guard` is
/// the long variant with real timings.
async fn assert_no_node_is_lost(fault: &str) {
    let timings = Timings::ROOMY;
    let race = Race::start(&options(timings, GuardedClusters::All))
        .await
        .unwrap();
    let logs = TempDir::new().unwrap();
    let replicas = start_prober(&race, timings, &logs).await;
    let fault = fault.parse().unwrap();
    let trials = race.run_with_fault(fault, 1, &replicas, |trial| println!("{}", trial.line()));
    for trial in trials.await.unwrap() {
        let log = std::fs::read_to_string(logs.path().join("prober.log")).unwrap_or_default();
        assert!(log.contains("guard: armed"), "{log}");
        assert_eq!(trial.fenced_at, None, "{trial:#?}");
        assert_eq!(trial.unknown_count(), 0, "{trial:#?}\n{log}");
    }
}
