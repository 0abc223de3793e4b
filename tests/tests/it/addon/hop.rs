//! `kelpie addon hop`: the hub's own kind shows every cluster's addon.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::stage::{Cluster, PATIENCE, Stage, condition, report, server};

/// As far as its schema is published, what matters of it.
const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: managedclusteraddons.addon.open-cluster-management.io
spec:
  group: addon.open-cluster-management.io
  names: {kind: ManagedClusterAddOn, listKind: ManagedClusterAddOnList, plural: managedclusteraddons, singular: managedclusteraddon}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              healthCheck: {type: object, properties: {mode: {type: string, enum: [Lease, Customized]}}}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [lastTransitionTime, message, reason, status, type]
                  properties:
                    lastTransitionTime: {type: string, format: date-time}
                    message: {type: string, maxLength: 32768}
                    observedGeneration: {type: integer, format: int64, minimum: 0}
                    reason: {type: string, minLength: 1, maxLength: 1024, pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'}
                    status: {type: string, enum: ['True', 'False', Unknown]}
                    type: {type: string, maxLength: 316}
";

const PATH: &str =
    "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/spoke-1/managedclusteraddons";

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
    hub.install(DEFINITION).await;
    let add_on = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "ManagedClusterAddOn",
        "metadata": { "name": "observability-controller" },
        "spec": {},
    });
    poll::until("the kind", PATIENCE, async || {
        Ok(rest::create(&hub.client, PATH, &add_on).await.ok())
    })
    .await
    .unwrap();
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
