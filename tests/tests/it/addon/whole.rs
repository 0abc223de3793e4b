//! Everything at once, as on a cluster: Kubernetes' own controllers, the operator, the status
//! controller, and collectors that read and write. Nobody's word is made up.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ControllerManager, poll};
use serde_json::json;

use super::collectors::{
    UWL, UWL_PROMETHEUS, core, furnish_for, operator, until_deployment, uwl_prometheus,
};
use super::pods::Pods;
use super::stage::{Cluster, PATIENCE, Stage, U, condition, definition};
use crate::collector::stage::{Scripted, lines, now_ms};

async fn change(spoke: &Cluster, spec: serde_json::Value) {
    let patch = json!({ "spec": spec });
    rest::merge(&spoke.client, &spoke.path(), &patch)
        .await
        .unwrap();
}

/// Waits until so many pods run, and no others.
async fn until_pods(pods: &Pods, count: usize, gone: &[String]) -> Vec<String> {
    let mut last = Vec::new();
    let found = poll::until("pods", PATIENCE, async || {
        last = pods.names();
        let is_new = last.iter().all(|pod| !gone.contains(pod));
        Ok((last.len() == count && is_new).then(|| last.clone()))
    });
    match found.await {
        Ok(pods) => pods,
        Err(error) => panic!("{error:#}: {last:?}"),
    }
}

#[tokio::test]
async fn the_life_of_an_addon_is_told_without_a_flap_from_its_boot_to_its_deletion() {
    let source = Scripted::start(|_| (200, lines("up", 3, now_ms()))).await;
    let receiver = Scripted::start(|_| (204, String::new())).await;
    let stage = Stage::bare().await;
    let (spoke, hub) = (&stage.spoke, &stage.hub);
    let endpoint = format!("{}/api/v1/receive", receiver.url());
    let info = format!("cluster-name: spoke-1\nobservatorium-api-endpoint: {endpoint}\n");
    furnish_for(spoke, &info).await;
    uwl_prometheus(spoke).await;
    hub.install(&definition().await).await;
    hub.create_addon(&json!({})).await;
    let controllers = [
        "garbage-collector-controller",
        "deployment-controller",
        "replicaset-controller",
    ];
    let manager = ControllerManager::start(&spoke.api, &controllers, &[]).await;
    let _manager = manager.unwrap();
    Pods::during(spoke, async |pods| {
        live(&stage, pods, &source, &receiver).await;
    })
    .await;
}

async fn live(stage: &Stage, pods: &Pods, source: &Scripted, receiver: &Scripted) {
    let (spoke, hub) = (&stage.spoke, &stage.hub);
    let (seen, shown) = (spoke.history().await, hub.history().await);

    let _status = stage.status(&[]).await;
    let platform_url = format!("--platform-url={}", source.url());
    let uwl_url = format!("--uwl-url={}", source.url());
    let _operator = operator(spoke, &[&platform_url, &uwl_url]).await;
    spoke.until("Available").await;
    let first = until_pods(pods, 2, &[]).await;

    // Pods are replaced: the old ones forward until the new ones are ready, and have no say.
    change(spoke, json!({ "interval": 77 })).await;
    until_pods(pods, 2, &first).await;
    spoke.until("Available").await;

    receiver.change(|_| (404, "no receiver".to_owned()));
    spoke.until("Degraded").await;
    receiver.change(|_| (204, String::new()));
    spoke.until("Available").await;

    let set = format!("{UWL_PROMETHEUS}/prometheus-user-workload");
    rest::delete(&spoke.client, &set).await.unwrap();
    until_pods(pods, 1, &[]).await;
    poll::until("its condition to go", PATIENCE, async || {
        Ok(condition(&spoke.addon().await, U).is_null().then_some(()))
    })
    .await
    .unwrap();
    uwl_prometheus(spoke).await;
    until_deployment(spoke, UWL, |_| true).await;
    until_pods(pods, 2, &[]).await;
    spoke.until("Available").await;

    change(spoke, json!({ "enableMetrics": false })).await;
    spoke.until("Disabled").await;
    until_pods(pods, 0, &[]).await;
    change(spoke, json!({ "enableMetrics": true })).await;
    until_pods(pods, 2, &[]).await;
    let last = spoke.until("Available").await;

    seen.until_seen(&last).await;
    let standings = [
        "-",
        "Progressing",
        "Available",
        // New pods.
        "Progressing",
        "Available",
        // The hub takes nothing.
        "Degraded",
        "Available",
        // User workloads come back.
        "Progressing",
        "Available",
        // Off and on.
        "Disabled",
        "Progressing",
        "Available",
    ];
    assert_eq!(seen.standings(), standings);
    // The hub may miss some of it, and sees nothing else.
    let last = poll::until("the hub to have the newest", PATIENCE, async || {
        let (ours, theirs) = (spoke.addon().await, hub.addon().await);
        let same = ours["status"]["conditions"] == theirs["status"]["conditions"];
        Ok(same.then_some(theirs))
    });
    shown.until_seen(&last.await.unwrap()).await;
    let mut expected = standings.iter();
    let shown = shown.standings();
    assert!(
        shown.iter().all(|one| expected.any(|other| other == one)),
        "{shown:?}"
    );

    rest::delete(&spoke.client, &spoke.path()).await.unwrap();
    until_pods(pods, 0, &[]).await;
    poll::until("everything to go", PATIENCE, async || {
        let services = rest::read(&spoke.client, &core("services")).await?;
        Ok((services["items"] == json!([])).then_some(()))
    })
    .await
    .unwrap();
}
