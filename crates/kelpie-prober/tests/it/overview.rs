//! The view that a replica has of its fleet: conditions, nodes, history and the last fence.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use kelpie_core::prober::overview::{
    CauseKind, ClusterCondition, ClusterDetail, FleetState, NodeRow, NodeState, ReplicaPart,
    TransitionKind,
};
use kelpie_prober::ProberState;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection};
use kelpie_sim::{Landscape, LandscapePlan};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::one_cluster::{SECOND, landscape_of};
use crate::replica::prober_with_pages;

async fn get<T: DeserializeOwned>(pages: &Router, path: &str) -> T {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = pages.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let body = to_bytes(response.into_body(), 1 << 24).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

async fn fleet(pages: &Router) -> FleetState {
    get(pages, "/debug/state?summary").await
}

async fn detail(pages: &Router, cluster: &str) -> ClusterDetail {
    let path = format!("/debug/state?cluster={cluster}");
    let mut state: ProberState = get(pages, &path).await;
    let view = state.clusters.remove(cluster).unwrap();
    view.detail.unwrap()
}

/// Cuts off two of three zones of the first two of three clusters from 120 s to 240 s.
fn landscape() -> Landscape {
    let incidents = [0, 1].map(|zone| {
        let fault = Fault::Partition(NodeSelection::Zone(zone));
        let incident = Incident::new(120 * SECOND, Some(120 * SECOND), fault);
        incident.in_clusters(ClusterSelection::Numbers(vec![0, 1]))
    });
    landscape_of(&LandscapePlan::with_size(3, 5), incidents.into())
}

fn conditions(fleet: &FleetState) -> Vec<ClusterCondition> {
    fleet.clusters.iter().map(|it| it.condition).collect()
}

#[tokio::test(start_paused = true)]
async fn story_of_a_fence_is_shown() {
    let landscape = landscape();
    let (watchdog, pages) = prober_with_pages(&landscape, "kelpie-0", false);
    let name = LandscapePlan::default().cluster_name(0);

    sleep(100 * SECOND).await;
    let calm = fleet(&pages).await;
    assert_eq!(conditions(&calm), [ClusterCondition::Healthy; 3]);
    assert_eq!(calm.clusters[0].sentence, "All 5 nodes renew their leases.");
    assert_eq!((calm.fleet.clusters, calm.fleet.needs_you), (3, 0));
    assert_eq!(calm.replica.part, ReplicaPart::Leader);
    let healthy = detail(&pages, &name).await;
    assert_eq!(healthy.history, [], "nothing has happened");
    let nodes = healthy.nodes.unwrap();
    let renewing = nodes.rows.iter().all(|row| {
        row.state == NodeState::Renewing && row.zone.is_some() && row.not_counted.is_none()
    });
    assert!(renewing && nodes.rows.len() == 5, "{nodes:?}");

    sleep(80 * SECOND).await;
    let fenced = fleet(&pages).await;
    let [fence, healthy] = [ClusterCondition::Fenced, ClusterCondition::Healthy];
    assert_eq!(conditions(&fenced), [fence, fence, healthy]);
    assert_eq!(fenced.fleet.needs_you, 2);
    assert!(fenced.clusters[0].sentence.contains("before the deadline"));
    assert!(fenced.clusters[0].margin_seconds.unwrap() > 0.0);
    let shared = fenced
        .shared_causes
        .iter()
        .map(|cause| (cause.kind, cause.count));
    assert!(
        shared.clone().any(|cause| cause == (CauseKind::Zone, 2)),
        "{:?}",
        fenced.shared_causes
    );
    let bucket = fenced.day.buckets.back().unwrap();
    assert_eq!((bucket.fenced, bucket.fences, bucket.clusters), (2, 2, 3));
    let nodes = detail(&pages, &name).await.nodes.unwrap();
    let expired = |row: &&NodeRow| row.state == NodeState::Expired;
    assert_eq!(nodes.rows.iter().filter(expired).count(), 4);
    let sentence = &fenced.clusters[0].sentence;
    assert!(sentence.starts_with("4 of 5 nodes silent."), "{sentence}");

    sleep(120 * SECOND).await;
    assert_eq!(
        conditions(&fleet(&pages).await),
        [ClusterCondition::Healthy; 3]
    );
    let after = detail(&pages, &name).await;
    let last = after.last_fence.unwrap();
    assert!(last.took().unwrap() < 3 * SECOND, "{last:?}");
    assert!(
        last.margin_seconds.unwrap() > 0.0 && last.end.is_some(),
        "{last:?}"
    );
    let is_call = |kind| kind == TransitionKind::Call;
    let mut kinds: Vec<_> = after.history.iter().map(|it| it.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| is_call(**kind)).count(), 6);
    kinds.retain(|kind| !is_call(*kind));
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            TransitionKind::Trip,
            TransitionKind::Fence,
            TransitionKind::Release,
            TransitionKind::Restore,
        ],
        "{:?}",
        after.history
    );
    watchdog.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn standby_names_the_leader_and_shows_the_fence() {
    let landscape = landscape();
    let (leader, _) = prober_with_pages(&landscape, "one", true);
    sleep(60 * SECOND).await;
    let (standby, pages) = prober_with_pages(&landscape, "two", true);
    sleep(120 * SECOND).await;
    let shown = fleet(&pages).await;
    assert_eq!(shown.replica.part, ReplicaPart::Standby);
    assert_eq!(shown.replica.identity, "two");
    assert_eq!(shown.replica.leader.as_deref(), Some("one"));
    assert_eq!(conditions(&shown)[..2], [ClusterCondition::Fenced; 2]);
    leader.stop().await.unwrap();
    standby.stop().await.unwrap();
}
