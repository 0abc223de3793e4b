//! One partition from beginning to end.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Damage, Landscape, LandscapePlan, SimClock};
use tokio::time::sleep;

use crate::replica::prober;

const SECOND: Duration = Duration::from_secs(1);

/// Cuts off all nodes of one of three clusters for 15 minutes.
fn scenario() -> Scenario {
    let partition = Fault::Partition(NodeSelection::All);
    let incident = Incident::new(120 * SECOND, Some(900 * SECOND), partition);
    Scenario {
        incidents: vec![incident.in_clusters(ClusterSelection::Numbers(vec![1]))],
        ..Scenario::default()
    }
}

/// Plays the scenario for half an hour, with or without a prober, and checks that only the affected
/// cluster is fenced meanwhile.
async fn play(is_watched: bool) -> (Landscape, Damage) {
    fastrand::seed(1);
    let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::in_process(&LandscapePlan::with_size(3, 5), &clock).unwrap();
    let driven = landscape.clone();
    let driver = tokio::spawn(async move { driven.run().await });
    let watchdog = is_watched.then(|| prober(&landscape, "kelpie-0", false));
    landscape.play(&scenario());
    sleep(200 * SECOND).await;
    let clusters = landscape.snapshot();
    let fenced: Vec<bool> = clusters
        .iter()
        .map(|cluster| cluster.controllers[0].present == 0)
        .collect();
    assert_eq!(fenced, [false, is_watched, false], "{clusters:?}");
    sleep(1_600 * SECOND).await;
    if let Some(watchdog) = watchdog {
        watchdog.stop().await.unwrap();
    }
    let damage = landscape.damage();
    driver.abort();
    (landscape, damage)
}

#[tokio::test(start_paused = true)]
async fn partition_causes_no_damage_with_prober() {
    let (landscape, damage) = play(true).await;
    assert_eq!((damage.nodes_unknown, damage.machines_replaced), (0, 0));
    let [margin] = damage.margins[..] else {
        panic!("{damage:?}");
    };
    assert!(margin > 2.0, "{margin}");
    let lasted = damage.seconds_to_normal.unwrap();
    assert!((900.0..960.0).contains(&lasted), "{lasted}");
    for cluster in landscape.snapshot() {
        assert_eq!((cluster.ready, cluster.unknown, cluster.cut_off), (5, 0, 0));
        assert!(
            cluster
                .controllers
                .iter()
                .all(|one| one.present == one.usual)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn partition_causes_damage_without_prober() {
    let (_, damage) = play(false).await;
    assert_eq!(damage.nodes_unknown, 5);
    assert!(damage.machines_replaced > 0, "{damage:?}");
    assert!(damage.margins.is_empty());
    assert!(damage.seconds_to_normal.unwrap() > 900.0);
}
