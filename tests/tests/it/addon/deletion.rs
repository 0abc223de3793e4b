//! An addon that is deleted takes with it what was made for it, and nothing else: by the operator, by
//! Kubernetes' garbage collector, and by both at once.

use std::time::Duration;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ControllerManager, poll};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::collectors::{
    PLATFORM, UWL, core, deployments, operator, speak, spoke, until_deployment, until_reason,
    uwl_prometheus,
};
use super::stage::{Alone, Cluster, M, NAMESPACE, PATIENCE, U};

/// What is made for an addon; the last two by Kubernetes.
fn kinds() -> [String; 4] {
    [
        core("services"),
        deployments(),
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"),
        core("pods"),
    ]
}

async fn names(spoke: &Cluster) -> Vec<String> {
    let mut names = Vec::new();
    for kind in kinds() {
        let list = rest::read(&spoke.client, &kind).await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            format!("{kind}/{name}")
        };
        names.extend(items.iter().map(name));
    }
    names
}

/// Objects that look as if they were ours: by name of the app, by name, by another owner.
async fn strangers(spoke: &Cluster) -> Vec<String> {
    let ports = json!({ "ports": [{ "port": 1 }] });
    let labels = json!({ "app.kubernetes.io/name": PLATFORM });
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = rest::create(&spoke.client, &core("configmaps"), &owner)
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
        json!({ "name": format!("{PLATFORM}-too") }),
        json!({ "name": "owned-by-another", "ownerReferences": owners }),
    ] {
        let service = json!({ "metadata": metadata, "spec": ports });
        rest::create(&spoke.client, &core("services"), &service)
            .await
            .unwrap();
    }
    names(spoke).await
}

/// Longer than a pass of the operator. One that was under way when the addon went may make a last object
/// for it, which the next pass or the garbage collector takes away.
const A_PASS: Duration = Duration::from_secs(2);

/// Waits until nothing is left but these, for good.
async fn until_only(spoke: &Cluster, kept: &[String]) {
    let mut last = Vec::new();
    let mut since = None;
    let gone = poll::until("everything to go", PATIENCE, async || {
        last = names(spoke).await;
        if last != kept {
            since = None;
            return Ok(None);
        }
        let since: &mut Instant = since.get_or_insert_with(Instant::now);
        Ok((since.elapsed() > A_PASS).then_some(()))
    });
    if let Err(error) = gone.await {
        panic!("{error:#}; left are {last:?}");
    }
}

async fn until_deployed(spoke: &Cluster) -> Value {
    until_reason(spoke, M, "UpdateSuccessful").await;
    until_reason(spoke, U, "UpdateSuccessful").await;
    until_deployment(spoke, UWL, |_| true).await;
    until_deployment(spoke, PLATFORM, |_| true).await
}

async fn stage() -> (Alone, Vec<String>) {
    let stage = spoke().await;
    uwl_prometheus(&stage.spoke).await;
    let kept = strangers(&stage.spoke).await;
    assert_eq!(kept.len(), 3);
    (stage, kept)
}

#[tokio::test]
async fn where_no_garbage_collector_runs_the_operator_cleans_up_also_what_it_slept_through() {
    let (stage, kept) = stage().await;
    let spoke = &stage.spoke;
    let first = operator(spoke, &[]).await;
    let old = until_deployed(spoke).await;
    rest::delete(&spoke.client, &spoke.path()).await.unwrap();
    until_only(spoke, &kept).await;
    // Another addon of the same name: what an old pod says is not heard.
    spoke.create_addon(&json!({})).await;
    until_deployed(spoke).await;
    let (code, said) = speak(spoke, "platform", "ForwardSuccessful", &old).await;
    assert_eq!(code, Some(3), "{said}");
    // Deleted while nobody looked.
    first.stop().await.unwrap();
    rest::delete(&spoke.client, &spoke.path()).await.unwrap();
    let _second = operator(spoke, &[]).await;
    until_only(spoke, &kept).await;
}

#[tokio::test]
async fn the_garbage_collector_alone_and_beside_the_operator_leaves_nothing_but_what_is_foreign() {
    let (stage, kept) = stage().await;
    let spoke = &stage.spoke;
    let controllers = [
        "garbage-collector-controller",
        "deployment-controller",
        "replicaset-controller",
    ];
    let manager = ControllerManager::start(&spoke.api, &controllers, &[]).await;
    let _manager = manager.unwrap();
    let first = operator(spoke, &[]).await;
    until_deployed(spoke).await;
    // Two collectors with a Service, a Deployment, a ReplicaSet and a pod each.
    until_count(spoke, kept.len() + 8).await;
    first.stop().await.unwrap();
    rest::delete(&spoke.client, &spoke.path()).await.unwrap();
    until_only(spoke, &kept).await;

    let _second = operator(spoke, &["--resync=1s"]).await;
    for cascade in ["background", "foreground", "orphan"] {
        spoke.create_addon(&json!({})).await;
        let deployment = until_deployed(spoke).await;
        until_count(spoke, kept.len() + 8).await;
        let cascade = format!("--cascade={cascade}");
        let delete = ["--namespace", NAMESPACE, "delete", "oba", "--all", &cascade];
        spoke.api.kubectl(&delete).await.unwrap();
        if cascade.ends_with("foreground") {
            // An addon that comes at once keeps what is made for it.
            spoke.create_addon(&json!({})).await;
            let uid = &deployment["metadata"]["uid"];
            until_deployment(spoke, PLATFORM, |now| now["metadata"]["uid"] != *uid).await;
            until_deployed(spoke).await;
            until_count(spoke, kept.len() + 8).await;
            rest::delete(&spoke.client, &spoke.path()).await.unwrap();
        }
        until_only(spoke, &kept).await;
    }
}

async fn until_count(spoke: &Cluster, count: usize) {
    let mut last = Vec::new();
    let there = poll::until("everything to be there", PATIENCE, async || {
        last = names(spoke).await;
        Ok((last.len() == count).then_some(()))
    });
    if let Err(error) = there.await {
        panic!("{error:#}; there are {last:?}");
    }
}
