//! Deleting an addon removes the objects that were created for it, and no others. Kubernetes'
//! garbage collector does so, or that and the operator at once.

use std::time::Duration;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::operator::{
    PLATFORM_COLLECTOR, UWL_COLLECTOR, core_path, create_uwl_prometheus, deployments_path,
    spoke_with_inputs, start_operator, until_deployment, until_reason,
};
use super::fixture::{
    AddonCluster, NAMESPACE, PLATFORM_STATUS, SpokeFixture, TIMEOUT, UWL_STATUS, start_controllers,
};

/// Collections with objects of an addon. Kubernetes creates those in the last two.
fn collections() -> [String; 4] {
    [
        core_path("services"),
        deployments_path(),
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"),
        core_path("pods"),
    ]
}

async fn object_paths(spoke: &AddonCluster) -> Vec<String> {
    let mut paths = Vec::new();
    for collection in collections() {
        let list = rest::get(&spoke.client, &collection).await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let path = |item: &Value| {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            format!("{collection}/{name}")
        };
        paths.extend(items.iter().map(path));
    }
    paths
}

/// Creates objects that resemble those of the addon: the same app label, a similar name, another
/// owner.
async fn create_foreign_objects(spoke: &AddonCluster) -> Vec<String> {
    let ports = json!({ "ports": [{ "port": 1 }] });
    let labels = json!({ "app.kubernetes.io/name": PLATFORM_COLLECTOR });
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = rest::create(&spoke.client, &core_path("configmaps"), &owner)
        .await
        .unwrap();
    let owners = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    for metadata in [
        json!({ "name": "of-the-same-app", "labels": labels }),
        json!({ "name": format!("{PLATFORM_COLLECTOR}-too") }),
        json!({ "name": "owned-by-another", "ownerReferences": owners }),
    ] {
        let service = json!({ "metadata": metadata, "spec": ports });
        rest::create(&spoke.client, &core_path("services"), &service)
            .await
            .unwrap();
    }
    object_paths(spoke).await
}

/// Longer than one reconcile of the operator. A reconcile that was running when the addon was
/// deleted may create one more object, which the next one or the garbage collector removes.
const RECONCILE: Duration = Duration::from_secs(2);

/// Waits until only these objects have been left for longer than a reconcile.
async fn until_only(spoke: &AddonCluster, kept: &[String]) {
    let mut last = Vec::new();
    let mut since = None;
    let deleted = poll::until("all other objects to be deleted", TIMEOUT, async || {
        last = object_paths(spoke).await;
        if last != kept {
            since = None;
            return Ok(None);
        }
        let since: &mut Instant = since.get_or_insert_with(Instant::now);
        Ok((since.elapsed() > RECONCILE).then_some(()))
    });
    if let Err(error) = deleted.await {
        panic!("{error:#}; the last objects were {last:?}");
    }
}

async fn until_deployed(spoke: &AddonCluster) -> Value {
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    until_reason(spoke, UWL_STATUS, "UpdateSuccessful").await;
    until_deployment(spoke, UWL_COLLECTOR, |_| true).await;
    until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await
}

async fn spoke_with_foreign_objects() -> (SpokeFixture, Vec<String>) {
    let fixture = spoke_with_inputs().await;
    create_uwl_prometheus(&fixture.spoke).await;
    let kept = create_foreign_objects(&fixture.spoke).await;
    assert_eq!(kept.len(), 3);
    (fixture, kept)
}

#[tokio::test]
async fn garbage_collector_and_operator_clean_up() {
    let (fixture, kept) = spoke_with_foreign_objects().await;
    let spoke = &fixture.spoke;
    let _manager = start_controllers(spoke).await;
    let first = start_operator(spoke, &[]).await;
    until_deployed(spoke).await;
    // Two collectors, each with a Service, a Deployment, a ReplicaSet and a pod.
    until_count(spoke, kept.len() + 8).await;
    first.stop().await.unwrap();
    rest::delete(&spoke.client, &spoke.addon_path())
        .await
        .unwrap();
    until_only(spoke, &kept).await;

    let _second = start_operator(spoke, &["--resync=1s"]).await;
    for cascade in ["background", "foreground", "orphan"] {
        spoke.create_addon(&json!({})).await;
        let deployment = until_deployed(spoke).await;
        until_count(spoke, kept.len() + 8).await;
        let cascade = format!("--cascade={cascade}");
        let delete = ["--namespace", NAMESPACE, "delete", "oba", "--all", &cascade];
        spoke.api.kubectl(&delete).await.unwrap();
        if cascade.ends_with("foreground") {
            // An addon that is created immediately afterwards keeps its own objects.
            spoke.create_addon(&json!({})).await;
            let uid = &deployment["metadata"]["uid"];
            until_deployment(spoke, PLATFORM_COLLECTOR, |now| {
                now["metadata"]["uid"] != *uid
            })
            .await;
            until_deployed(spoke).await;
            until_count(spoke, kept.len() + 8).await;
            rest::delete(&spoke.client, &spoke.addon_path())
                .await
                .unwrap();
        }
        until_only(spoke, &kept).await;
    }
}

async fn until_count(spoke: &AddonCluster, count: usize) {
    let mut last = Vec::new();
    let complete = poll::until("all objects to exist", TIMEOUT, async || {
        last = object_paths(spoke).await;
        Ok((last.len() == count).then_some(()))
    });
    if let Err(error) = complete.await {
        panic!("{error:#}; the last objects were {last:?}");
    }
}
