//! A landscape with one cluster.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, Incident, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimClock};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn incident(begin: u32, end: u32, fault: Fault) -> Incident {
    Incident::new(begin * SECOND, Some((end - begin) * SECOND), fault)
}

/// Plays these incidents on one cluster with five nodes.
pub(crate) fn landscape(incidents: Vec<Incident>) -> Landscape {
    landscape_of(&LandscapePlan::with_size(1, 5), incidents)
}

/// Plays these incidents on the clusters of a plan.
pub(crate) fn landscape_of(plan: &LandscapePlan, incidents: Vec<Incident>) -> Landscape {
    fastrand::seed(1);
    let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::in_process(plan, &clock).unwrap();
    landscape.play(&Scenario {
        incidents,
        ..Scenario::default()
    });
    let driven = landscape.clone();
    tokio::spawn(async move { driven.run().await });
    landscape
}
