//! One partition from beginning to end.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Clusters, Fault, Incident, Nodes, Scenario};
use kelpie_sim::{Clock, Damage, Landscape, Plan};
use tokio::time::sleep;

use crate::replica::prober;

const SECOND: Duration = Duration::from_secs(1);

/// A quarter of an hour without nodes in one of three clusters.
fn scenario() -> Scenario {
    let partition = Fault::Partition(Nodes::All);
    let incident = Incident::new(120 * SECOND, Some(900 * SECOND), partition);
    Scenario {
        incidents: vec![incident.of(Clusters::Numbers(vec![1]))],
        ..Scenario::default()
    }
}

/// What is left of it after half an hour.
async fn play(is_watched: bool) -> (Landscape, Damage) {
    fastrand::seed(1);
    let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::inside(&Plan::of(3, 5), &clock).unwrap();
    let driving = landscape.clone();
    let driver = tokio::spawn(async move { driving.run().await });
    let watchdog = is_watched.then(|| prober(&landscape, "kelpie-0", false));
    landscape.play(&scenario());
    sleep(200 * SECOND).await;
    let rows = landscape.fleet();
    let fenced: Vec<bool> = rows
        .iter()
        .map(|row| row.controllers[0].present == 0)
        .collect();
    assert_eq!(fenced, [false, is_watched, false], "{rows:?}");
    sleep(1_600 * SECOND).await;
    if let Some(watchdog) = watchdog {
        watchdog.end().await.unwrap();
    }
    let damage = landscape.damage();
    driver.abort();
    (landscape, damage)
}

#[tokio::test(start_paused = true)]
async fn a_partition_breaks_nothing_and_everything_is_as_before_afterwards() {
    let (landscape, damage) = play(true).await;
    assert_eq!((damage.nodes_unknown, damage.machines_replaced), (0, 0));
    let [margin] = damage.margins[..] else {
        panic!("{damage:?}");
    };
    assert!(margin > 2.0, "{margin}");
    let lasted = damage.seconds_to_normal.unwrap();
    assert!((900.0..960.0).contains(&lasted), "{lasted}");
    for row in landscape.fleet() {
        assert_eq!((row.ready, row.unknown, row.cut_off), (5, 0, 0));
        assert!(row.controllers.iter().all(|one| one.present == one.usual));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_watchdog_nodes_turn_unknown_and_machines_are_replaced() {
    let (_, damage) = play(false).await;
    assert_eq!(damage.nodes_unknown, 5);
    assert!(damage.machines_replaced > 0, "{damage:?}");
    assert!(damage.margins.is_empty());
    assert!(damage.seconds_to_normal.unwrap() > 900.0);
}
