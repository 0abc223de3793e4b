//! `kelpie addon hop`: the hub's own kind shows every cluster's addon.

use kelpie_e2e::landscape::{Doorman, Ruling, rest};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::stage::{Cluster, PATIENCE, Stage, component, condition, report, server, server_as};

/// The hub's own kinds, as they are published.
const DEFINITIONS: [&str; 2] = [
    "managedclusters.cluster.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

const PATH: &str =
    "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/spoke-1/managedclusteraddons";

/// A cluster that the hub knows, and its `ManagedClusterAddOn`.
async fn make(hub: &Cluster, name: &str) {
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
        // A definition is served by all parts of the server a moment after it is established.
        poll::until("the kind", PATIENCE, async || {
            Ok(rest::create(&hub.client, path, object).await.ok())
        })
        .await
        .unwrap();
    }
}

async fn shown(hub: &Cluster) -> Value {
    let path = format!("{PATH}/observability-controller");
    rest::read(&hub.client, &path).await.unwrap()
}

/// Waits until these types have these states, and gives the object.
async fn until(hub: &Cluster, states: &[(&str, &str)]) -> Value {
    let mut last = Value::Null;
    let found = poll::until("the hub to show it", PATIENCE, async || {
        last = shown(hub).await;
        let is_so = |(kind, status): &(&str, &str)| condition(&last, kind)["status"] == *status;
        Ok(states.iter().all(is_so).then(|| last.clone()))
    });
    match found.await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}; the last was {:#}", last["status"]),
    }
}

#[tokio::test]
async fn reason_and_message_reach_the_hubs_own_kind_and_available_is_left_to_its_owner() {
    let stage = Stage::start().await;
    let hub = &stage.hub;
    hub.api.install_definitions(&DEFINITIONS).await.unwrap();
    make(hub, "spoke-1").await;
    let status_path = format!("{PATH}/observability-controller/status");
    let leased = json!({ "status": { "conditions": [{
        "type": "Available",
        "status": "True",
        "reason": "ManagedClusterAddOnLeaseUpdated",
        "message": "by lease",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }] } });
    rest::merge(&hub.client, &status_path, &leased)
        .await
        .unwrap();

    let _status = stage.status(&[]).await;
    let _hop = server(hub, "hop", &["--resync=300ms"]).await;
    report(
        &stage.spoke,
        "platform",
        "ForwardFailure",
        &["--message=503"],
    )
    .await;
    let object = until(hub, &[("Degraded", "True"), ("Progressing", "False")]).await;
    assert_eq!(condition(&object, "Degraded")["reason"], "ForwardFailure");
    let message = condition(&object, "Degraded")["message"].as_str().unwrap();
    assert!(message.contains("503"), "{message}");
    assert_eq!(
        condition(&object, "Available")["reason"],
        "ManagedClusterAddOnLeaseUpdated"
    );
    let since = condition(&object, "Degraded")["lastTransitionTime"].clone();

    // Another message, the same state.
    report(
        &stage.spoke,
        "platform",
        "ForwardFailure",
        &["--message=timeout"],
    )
    .await;
    let object = poll::until("the new message", PATIENCE, async || {
        let object = shown(hub).await;
        let message = condition(&object, "Degraded")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message.contains("timeout").then(|| object.clone()))
    });
    let object = object.await.unwrap();
    assert_eq!(condition(&object, "Degraded")["lastTransitionTime"], since);

    // Nothing new: it is looked at in every resync, and never written.
    let version = object["metadata"]["resourceVersion"].clone();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(shown(hub).await["metadata"]["resourceVersion"], version);

    // The hub leaves Available to us.
    let ours = json!({ "status": { "healthCheck": { "mode": "Customized" } } });
    rest::merge(&hub.client, &status_path, &ours).await.unwrap();
    until(hub, &[("Degraded", "True"), ("Available", "False")]).await;
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    until(hub, &[("Degraded", "False"), ("Available", "True")]).await;
}

#[tokio::test]
async fn a_cluster_that_cannot_be_written_keeps_no_other_from_being_shown() {
    let stage = Stage::start().await;
    let hub = &stage.hub;
    hub.api.install_definitions(&DEFINITIONS).await.unwrap();
    let settled = json!({ "conditions": [
        component("MetricsCollectorStatus", "ForwardFailure"),
        component("Degraded", "ForwardFailure"),
    ] });
    // The first of all by name.
    hub.namespace("another").await;
    let addon = rest::read(&hub.client, &hub.path()).await.unwrap();
    let addon = json!({
        "apiVersion": addon["apiVersion"],
        "kind": addon["kind"],
        "metadata": { "name": addon["metadata"]["name"] },
    });
    let addons = hub.addons().replace("spoke-1", "another");
    rest::create(&hub.client, &addons, &addon).await.unwrap();
    for path in [hub.path(), hub.path().replace("spoke-1", "another")] {
        let patch = json!({ "status": settled });
        rest::merge(&hub.client, &format!("{path}/status"), &patch)
            .await
            .unwrap();
    }
    for name in ["another", "spoke-1"] {
        make(hub, name).await;
    }
    let door = Doorman::start(&hub.api).await.unwrap();
    door.rule(|asked| match asked.method.as_str() {
        "PUT" if asked.path.contains("/another/") => Ruling::Refuse(403, vec![]),
        _ => Ruling::Pass,
    });
    let way = hub.keep("door.kubeconfig", &door.kubeconfig(&hub.api.admin()));
    let _hop = server_as(&way, "hop", &[]).await;
    until(hub, &[("Degraded", "True")]).await;

    let since = door.asked().len();
    door.rule(|_| Ruling::Pass);
    poll::until("the other to be shown", PATIENCE, async || {
        let path = PATH.replace("spoke-1", "another");
        let object = rest::read(&hub.client, &format!("{path}/observability-controller")).await?;
        Ok((condition(&object, "Degraded")["status"] == "True").then_some(()))
    })
    .await
    .unwrap();
    let asked = door.asked().split_off(since);
    let writes = asked.iter().filter(|asked| asked.method == "PUT").count();
    assert_eq!(writes, 1, "who is shown is left alone: {asked:?}");
}
