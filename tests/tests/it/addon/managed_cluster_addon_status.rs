//! `kelpie addon hop`: the status of every cluster's addon appears in its `ManagedClusterAddOn`.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::fixture::{AddonCluster, Fixture, TIMEOUT, condition, report, start_server};

/// Published CRDs of the hub's own resources.
const CRDS: [&str; 2] = [
    "managedclusters.cluster.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

/// Path of the spoke's `ManagedClusterAddOn` collection.
const PATH: &str =
    "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/spoke-1/managedclusteraddons";

/// Creates a `ManagedCluster` and its `ManagedClusterAddOn` on the hub.
async fn create_managed_cluster(hub: &AddonCluster, name: &str) {
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": { "name": name },
        "spec": { "hubAcceptsClient": true },
    });
    let add_on = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "ManagedClusterAddOn",
        "metadata": { "name": "observability-controller" },
        "spec": { "installNamespace": "open-cluster-management-addon-observability" },
    });
    let clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
    let add_ons = PATH.replace("spoke-1", name);
    for (path, object) in [(clusters, &cluster), (&add_ons, &add_on)] {
        // The API server accepts objects only a moment after the CRD is established.
        poll::until("the object to be accepted", TIMEOUT, async || {
            Ok(rest::create(&hub.client, path, object).await.ok())
        })
        .await
        .unwrap();
    }
}

async fn managed_cluster_addon(hub: &AddonCluster) -> Value {
    let path = format!("{PATH}/observability-controller");
    rest::get(&hub.client, &path).await.unwrap()
}

/// Waits until these conditions have these statuses, and returns the `ManagedClusterAddOn`.
async fn until_statuses(hub: &AddonCluster, statuses: &[(&str, &str)]) -> Value {
    let mut last = Value::Null;
    let found = poll::until("the conditions on the hub", TIMEOUT, async || {
        last = managed_cluster_addon(hub).await;
        let matches = |(kind, status): &(&str, &str)| condition(&last, kind)["status"] == *status;
        Ok(statuses.iter().all(matches).then(|| last.clone()))
    });
    match found.await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}; the last status was {:#}", last["status"]),
    }
}

#[tokio::test]
async fn status_fits_published_schema() {
    let fixture = Fixture::start().await;
    let hub = &fixture.hub;
    hub.api.install_crds(&CRDS).await.unwrap();
    create_managed_cluster(hub, "spoke-1").await;
    let _status = fixture.start_status(&[]).await;
    let _hop = start_server(hub, "hop", &["--resync=300ms"]).await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=503"],
    )
    .await;
    let object = until_statuses(hub, &[("Degraded", "True"), ("Progressing", "False")]).await;
    assert!(condition(&object, "Available").is_null());

    // With this mode the hub leaves Available to the addon.
    let status_path = format!("{PATH}/observability-controller/status");
    let customized = json!({ "status": { "healthCheck": { "mode": "Customized" } } });
    rest::merge_patch(&hub.client, &status_path, &customized)
        .await
        .unwrap();
    until_statuses(hub, &[("Degraded", "True"), ("Available", "False")]).await;
}
