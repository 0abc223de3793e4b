//! The leader hands over: the Lease goes to a replica that judges its clusters.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::LEASES;
use kelpie_sim::{Landscape, LandscapePlan, SimClock};
use tokio::time::sleep;

use crate::replica::{LEASE, prober};

const SECOND: Duration = Duration::from_secs(1);

fn landscape() -> Landscape {
    fastrand::seed(1);
    let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::in_process(&LandscapePlan::with_size(3, 5), &clock).unwrap();
    let driven = landscape.clone();
    tokio::spawn(async move { driven.run().await });
    landscape
}

fn holder(landscape: &Landscape) -> String {
    let seed = landscape.seed();
    let lease = seed.store().get(&LEASES, "garden", LEASE).unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str();
    holder.unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn lone_replica_leads_before_it_is_warm() {
    let landscape = landscape();
    let one = prober(&landscape, "one", true);
    sleep(8 * SECOND).await;
    assert_eq!(holder(&landscape), "one");
    one.stop().await.unwrap();
    assert_eq!(holder(&landscape), "", "released");
}

#[tokio::test(start_paused = true)]
async fn released_lease_goes_to_the_warm_replica() {
    let landscape = landscape();
    let old = prober(&landscape, "old", true);
    sleep(10 * SECOND).await;
    let warm = prober(&landscape, "warm", true);
    sleep(60 * SECOND).await;
    let colds = ["cold-1", "cold-2", "cold-3"].map(|name| prober(&landscape, name, true));
    sleep(5 * SECOND).await;
    assert_eq!(holder(&landscape), "old");
    let stopping = tokio::spawn(old.stop());
    // The Lease does not wait until the probes have ended.
    sleep(SECOND).await;
    assert_eq!(holder(&landscape), "warm");
    stopping.await.unwrap().unwrap();
    for replica in colds.into_iter().chain([warm]) {
        replica.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn cold_replica_takes_an_abandoned_lease() {
    let landscape = landscape();
    let old = prober(&landscape, "old", true);
    sleep(60 * SECOND).await;
    old.crash();
    let cold = prober(&landscape, "cold", true);
    sleep(18 * SECOND).await;
    assert_eq!(holder(&landscape), "old", "it expires, and is free for 5 s");
    sleep(7 * SECOND).await;
    assert_eq!(holder(&landscape), "cold");
    cold.stop().await.unwrap();
}
