//! The prober races a real kube-controller-manager that marks silent nodes Unknown.

use std::time::Duration;

use kelpie_e2e::landscape::{Kubelets, ProberConfigFile, ProberProcess, Timings, rest};
use kelpie_e2e::race::{GuardedClusters, Race, RaceOptions, UnknownNodes, report};
use kelpie_e2e::{ControlPlane, KubeControllerManager, poll};
use tokio::time::Instant;

use super::fixture::TIMEOUT;

/// Twice as much time between trip and deadline as with real timings.
const TIMINGS: Timings = Timings {
    grace: Duration::from_secs(30),
    renewal: Duration::from_secs(2),
    reserve: Duration::from_secs(3),
    interval: Duration::from_secs(5),
};

/// If the calls of a fence take longer than this, the machine is too slow to win the race.
const SLOW: Duration = Duration::from_secs(3);

/// `cargo xtask bench race` is the long variant with real timings.
#[tokio::test]
async fn no_node_turns_unknown_in_fenced_clusters() {
    let options = RaceOptions {
        timings: TIMINGS,
        node_counts: vec![2, 20],
        clusters: 2,
        pod_stop: Duration::from_secs(1),
        settle: TIMINGS.renewal * 4,
        proxied: false,
        guarded: GuardedClusters::NotAlone,
        rng_seed: 1,
    };
    let race = Race::start(&options).await.unwrap();
    let kubeconfig = race.kubeconfig().unwrap();
    let config = ProberConfigFile::gardener_targets(TIMINGS);
    let prober = ProberProcess::start(&kubeconfig, &config, &[])
        .await
        .unwrap();
    let trials = race.run(2, |trial| println!("{}", trial.line())).await;
    let trials = trials.unwrap();

    println!("{}", report::table(&trials));
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let is_winnable = trial.baseline < SLOW;
        let is_complete = trial.fenced_at.is_some() && trial.restore.is_some();
        assert!(is_complete, "{}", prober.log());
        assert!(!is_winnable || trial.unknown_count() == 0, "{trial:#?}");
    }
}

/// Control for the race: without a prober the real node controller gives up every node. That also
/// shows that it treats the kubelets of these tests like real ones.
#[tokio::test]
async fn nodes_turn_unknown_without_fence() {
    let control_plane = ControlPlane::start().await.unwrap();
    let client = control_plane.client().await.unwrap();
    let timings = Timings::QUICK;
    let kubelets = Kubelets::start_realistic(&client, 3, timings)
        .await
        .unwrap();
    let flags = ["--node-monitor-grace-period=8s", "--node-monitor-period=1s"];
    let controllers = ["node-lifecycle-controller"];
    let start = Instant::now();
    let unknown = UnknownNodes::start(&client);
    let manager = KubeControllerManager::start(&control_plane.api, &controllers, &flags);
    let _manager = manager.await.unwrap();
    let registered = poll::until("registered nodes", TIMEOUT, async || {
        let events = "/api/v1/namespaces/default/events?fieldSelector=reason=RegisteredNode";
        let events = rest::get(&client, events).await?;
        let count = events["items"].as_array().map_or(0, Vec::len);
        Ok((count == 3).then_some(()))
    });
    registered.await.unwrap();
    assert!(unknown.since(start).is_empty());

    kubelets.partition(1.0).await;
    let partitioned_at = Instant::now();
    let deadline = kubelets.deadline(timings.grace).await.unwrap();
    let lost = poll::until("nodes to turn Unknown", TIMEOUT, async || {
        let lost = unknown.since(partitioned_at);
        Ok((lost.len() == 3).then_some(lost))
    });
    let lost = lost.await.unwrap();
    for (node, at) in lost {
        assert!(at > deadline, "{node}, {:?} too early", deadline - at);
    }
    kubelets.heal().await;
    let ready = poll::until("ready nodes", TIMEOUT, async || {
        Ok(unknown.current().is_empty().then_some(()))
    });
    ready.await.unwrap();
}
