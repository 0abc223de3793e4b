//! `kelpie addon hop`: the status of every cluster's addon appears in its `ManagedClusterAddOn`.

use kelpie_e2e::landscape::{InterceptAction, Interceptor, rest};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::fixture::{
    AddonCluster, Fixture, TIMEOUT, component_condition, condition, report, start_server,
    start_server_as,
};

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
async fn status_is_copied_except_foreign_available() {
    let fixture = Fixture::start().await;
    let hub = &fixture.hub;
    hub.api.install_crds(&CRDS).await.unwrap();
    create_managed_cluster(hub, "spoke-1").await;
    let status_path = format!("{PATH}/observability-controller/status");
    let leased = json!({ "status": { "conditions": [{
        "type": "Available",
        "status": "True",
        "reason": "ManagedClusterAddOnLeaseUpdated",
        "message": "by lease",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }] } });
    rest::merge_patch(&hub.client, &status_path, &leased)
        .await
        .unwrap();

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
    assert_eq!(condition(&object, "Degraded")["reason"], "ForwardFailure");
    let message = condition(&object, "Degraded")["message"].as_str().unwrap();
    assert!(message.contains("503"), "{message}");
    assert_eq!(
        condition(&object, "Available")["reason"],
        "ManagedClusterAddOnLeaseUpdated"
    );
    let since = condition(&object, "Degraded")["lastTransitionTime"].clone();

    // A new message does not change the transition time.
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=timeout"],
    )
    .await;
    let object = poll::until("the new message", TIMEOUT, async || {
        let object = managed_cluster_addon(hub).await;
        let message = condition(&object, "Degraded")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message.contains("timeout").then(|| object.clone()))
    });
    let object = object.await.unwrap();
    assert_eq!(condition(&object, "Degraded")["lastTransitionTime"], since);

    // Resyncs without a change write nothing.
    let version = object["metadata"]["resourceVersion"].clone();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        managed_cluster_addon(hub).await["metadata"]["resourceVersion"],
        version
    );

    // With this mode the hub leaves Available to the addon.
    let customized = json!({ "status": { "healthCheck": { "mode": "Customized" } } });
    rest::merge_patch(&hub.client, &status_path, &customized)
        .await
        .unwrap();
    until_statuses(hub, &[("Degraded", "True"), ("Available", "False")]).await;
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    until_statuses(hub, &[("Degraded", "False"), ("Available", "True")]).await;
}

#[tokio::test]
async fn rejected_write_does_not_block_other_clusters() {
    let fixture = Fixture::start().await;
    let hub = &fixture.hub;
    hub.api.install_crds(&CRDS).await.unwrap();
    let status = json!({ "conditions": [
        component_condition("MetricsCollectorStatus", "ForwardFailure"),
        component_condition("Degraded", "ForwardFailure"),
    ] });
    // This cluster comes first in alphabetical order.
    hub.create_namespace("another").await;
    let addon = rest::get(&hub.client, &hub.addon_path()).await.unwrap();
    let addon = json!({
        "apiVersion": addon["apiVersion"],
        "kind": addon["kind"],
        "metadata": { "name": addon["metadata"]["name"] },
    });
    let addons = hub.addons_path().replace("spoke-1", "another");
    rest::create(&hub.client, &addons, &addon).await.unwrap();
    for path in [
        hub.addon_path(),
        hub.addon_path().replace("spoke-1", "another"),
    ] {
        let patch = json!({ "status": status });
        rest::merge_patch(&hub.client, &format!("{path}/status"), &patch)
            .await
            .unwrap();
    }
    for name in ["another", "spoke-1"] {
        create_managed_cluster(hub, name).await;
    }
    let interceptor = Interceptor::start(&hub.api).await.unwrap();
    interceptor.set_rule(|request| match request.method.as_str() {
        "PUT" if request.path.contains("/another/") => InterceptAction::Reject(403, vec![]),
        _ => InterceptAction::Pass,
    });
    let kubeconfig = interceptor.kubeconfig(&hub.api.admin());
    let kubeconfig = hub.write_file("intercepted.kubeconfig", &kubeconfig);
    let _hop = start_server_as(&kubeconfig, "hop", &[]).await;
    until_statuses(hub, &[("Degraded", "True")]).await;

    let since = interceptor.requests().len();
    interceptor.set_rule(|_| InterceptAction::Pass);
    poll::until("the other cluster's status", TIMEOUT, async || {
        let path = PATH.replace("spoke-1", "another");
        let object = rest::get(&hub.client, &format!("{path}/observability-controller")).await?;
        Ok((condition(&object, "Degraded")["status"] == "True").then_some(()))
    })
    .await
    .unwrap();
    let requests = interceptor.requests().split_off(since);
    let writes = requests
        .iter()
        .filter(|request| request.method == "PUT")
        .count();
    assert_eq!(
        writes, 1,
        "an up-to-date cluster is not written again: {requests:?}"
    );
}
