//! Credentials that are rotated while the watch on the Secrets says nothing.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimClock};
use tokio::time::sleep;

use crate::replica::prober;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn rotated_credentials_are_read_without_a_watch() {
    fastrand::seed(1);
    let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::in_process(&LandscapePlan::with_size(3, 5), &clock).unwrap();
    let driven = landscape.clone();
    let driver = tokio::spawn(async move { driven.run().await });
    let watchdog = prober(&landscape, "kelpie-0", false);
    let partition = Fault::Partition(NodeSelection::All);
    landscape.play(&Scenario {
        incidents: vec![
            Incident::new(110 * SECOND, None, Fault::Rotation),
            Incident::new(112 * SECOND, Some(300 * SECOND), partition),
        ],
        ..Scenario::default()
    });
    sleep(100 * SECOND).await;
    landscape.seed().stall_watches(true);
    sleep(100 * SECOND).await;
    let damage = landscape.damage();
    assert_eq!(
        (damage.nodes_unknown, damage.margins.len()),
        (0, 3),
        "{damage:?}"
    );
    landscape.seed().stall_watches(false);
    watchdog.stop().await.unwrap();
    driver.abort();
}
