//! The race against a real kube-controller-manager.

use std::time::Duration;

use kelpie_e2e::landscape::{Kubelets, Pace, Prober, ProberConfig, rest};
use kelpie_e2e::race::{Course, Race, Roll, Trial, report};
use kelpie_e2e::{ControlPlane, ControllerManager, poll};
use tokio::time::Instant;

use super::stage::PATIENCE;

/// Twice as much time between trip and deadline as in the real world.
const PACE: Pace = Pace {
    grace: Duration::from_secs(30),
    renewal: Duration::from_secs(2),
    reserve: Duration::from_secs(3),
    interval: Duration::from_secs(5),
};

/// What the calls of a fence may take on a machine that has a chance to win.
const SLOW: Duration = Duration::from_secs(3);

/// `cargo xtask bench race` is the long one, in the pace of the real world.
#[tokio::test]
async fn no_node_is_given_up_when_clusters_are_cut_off() {
    let course = Course {
        pace: PACE,
        sizes: vec![2, 20],
        arenas: 2,
        pod_stop: Duration::from_secs(1),
        settle: PACE.renewal * 4,
        seed: 1,
    };
    let race = Race::prepare(&course).await.unwrap();
    let kubeconfig = race.kubeconfig().unwrap();
    let config = ProberConfig::shipped(PACE);
    let prober = Prober::start(&kubeconfig, &config, &[]).await.unwrap();
    let trials = race.run(2, |trial| println!("{}", trial.line())).await;
    let trials = trials.unwrap();

    println!("{}", report::table(&trials));
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let Trial { fence, restore, .. } = trial;
        let had_a_chance = trial.machine < SLOW;
        assert!(fence.is_some() && restore.is_some(), "{}", prober.log());
        assert!(!had_a_chance || trial.lost() == 0, "{trial:#?}");
    }
}

/// What the race would look like without a prober, and what makes it one: the real node controller
/// sees the kubelets of these tests as it would see others.
#[tokio::test]
async fn without_a_fence_every_node_is_given_up_and_comes_back_with_its_kubelet() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client().await.unwrap();
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start_real(&client, 3, pace).await.unwrap();
    let flags = ["--node-monitor-grace-period=8s", "--node-monitor-period=1s"];
    let controllers = ["node-lifecycle-controller"];
    let start = Instant::now();
    let roll = Roll::start(&client);
    let manager = ControllerManager::start(&plane.api, &controllers, &flags);
    let _manager = manager.await.unwrap();
    let known = poll::until("nodes that are known", PATIENCE, async || {
        let events = "/api/v1/namespaces/default/events?fieldSelector=reason=RegisteredNode";
        let events = rest::read(&client, events).await?;
        let count = events["items"].as_array().map_or(0, Vec::len);
        Ok((count == 3).then_some(()))
    });
    known.await.unwrap();
    assert!(roll.lost_since(start).is_empty());

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(pace.grace).await.unwrap();
    let lost = poll::until("nodes to be given up", PATIENCE, async || {
        let lost = roll.lost_since(cut);
        Ok((lost.len() == 3).then_some(lost))
    });
    let lost = lost.await.unwrap();
    for (node, at) in lost {
        assert!(at > deadline, "{node}, {:?} before its time", deadline - at);
    }
    kubelets.heal().await;
    let ready = poll::until("ready nodes", PATIENCE, async || {
        Ok(roll.missing().is_empty().then_some(()))
    });
    ready.await.unwrap();
}
