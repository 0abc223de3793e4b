//! Clusters with a guard: no node turns Unknown without a permit, whether or not it can be fenced.

use kelpie_core::prober::guard::{GUARD_NAME, GuardContent, GuardPolicySpec};
use kelpie_sim::resource::POLICIES;
use kelpie_sim::scenario::{Fault, FaultSite, Incident, NodeSelection};
use kelpie_sim::{Landscape, LandscapePlan};
use tokio::time::sleep;

use crate::one_cluster::{SECOND, incident, landscape};
use crate::replica::prober_with_guard;

fn partition(begin: u32, end: u32) -> Incident {
    incident(begin, end, Fault::Partition(NodeSelection::All))
}

/// Returns the content of a cluster's policy.
pub(crate) fn guard_of(landscape: &Landscape, cluster: &str) -> Option<GuardContent> {
    let server = landscape.shoot(cluster)?;
    let policy = server.store().get(&POLICIES, "", GUARD_NAME).ok()?;
    let spec = serde_json::from_value::<GuardPolicySpec>(policy["spec"].clone());
    spec.ok()?.content()
}

fn policy(landscape: &Landscape) -> Option<GuardContent> {
    guard_of(landscape, &LandscapePlan::default().cluster_name(0))
}

#[tokio::test(start_paused = true)]
async fn unreachable_seed_loses_no_node() {
    let outage = incident(130, 400, Fault::Outage(FaultSite::Seed));
    let landscape = landscape(vec![partition(120, 300), outage]);
    let prober = prober_with_guard(&landscape, "one", false);
    sleep(600 * SECOND).await;
    assert_eq!(landscape.damage().nodes_unknown, 0);
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guard_outlives_the_prober() {
    let landscape = landscape(vec![partition(120, 600)]);
    let prober = prober_with_guard(&landscape, "one", false);
    sleep(121 * SECOND).await;
    let until = policy(&landscape).unwrap().until;
    prober.stop().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(landscape.damage().nodes_unknown, 0);
    let left = until.since(landscape.now());
    assert!(left > 5 * SECOND, "{left:?}");
    sleep(left + 20 * SECOND).await;
    assert_eq!(landscape.damage().nodes_unknown, 5, "it has run out");
}

#[tokio::test(start_paused = true)]
async fn lost_node_turns_unknown() {
    let one = Fault::Partition(NodeSelection::Share(0.2));
    let landscape = landscape(vec![incident(120, 400, one)]);
    let prober = prober_with_guard(&landscape, "one", true);
    sleep(200 * SECOND).await;
    assert_eq!(landscape.damage().nodes_unknown, 1);
    let permits = policy(&landscape).unwrap().permits;
    assert_eq!(permits.names().map(<[_]>::len), Some(1));
    sleep(300 * SECOND).await;
    let permits = policy(&landscape).unwrap().permits;
    assert_eq!(permits.names().map(<[_]>::len), Some(0));
    prober.stop().await.unwrap();
}
