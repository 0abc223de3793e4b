//! The complete addon as in a real cluster: Kubernetes' controllers, the operator, the status
//! controller, and collectors that forward metrics. No report is simulated.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::json;

use super::fixture::collector_pods::CollectorPods;
use super::fixture::operator::{
    UWL_COLLECTOR, UWL_PROMETHEUS, core_path, create_inputs_with_hub_info, create_uwl_prometheus,
    start_operator, until_deployment,
};
use super::fixture::{
    AddonCluster, Fixture, TIMEOUT, UWL_STATUS, condition, crd_yaml, start_controllers,
};
use crate::collector::fixture::{ScriptedServer, exposition, now_ms};

async fn patch_spec(spoke: &AddonCluster, spec: serde_json::Value) {
    let patch = json!({ "spec": spec });
    rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch)
        .await
        .unwrap();
}

/// Waits until exactly this many pods run and none of them is in `old`. Returns their names.
async fn until_pods(pods: &CollectorPods, count: usize, old: &[String]) -> Vec<String> {
    let mut last = Vec::new();
    let found = poll::until("pods", TIMEOUT, async || {
        last = pods.names();
        let is_new = last.iter().all(|pod| !old.contains(pod));
        Ok((last.len() == count && is_new).then(|| last.clone()))
    });
    match found.await {
        Ok(pods) => pods,
        Err(error) => panic!("{error:#}: {last:?}"),
    }
}

#[tokio::test]
async fn lifecycle_has_no_spurious_transitions() {
    let source = ScriptedServer::start(|_| (200, exposition("up", 3, now_ms()))).await;
    let receiver = ScriptedServer::start(|_| (204, String::new())).await;
    let fixture = Fixture::without_crd().await;
    let (spoke, hub) = (&fixture.spoke, &fixture.hub);
    let endpoint = format!("{}/api/v1/receive", receiver.url());
    let info = format!("cluster-name: spoke-1\nobservatorium-api-endpoint: {endpoint}\n");
    create_inputs_with_hub_info(spoke, &info).await;
    create_uwl_prometheus(spoke).await;
    hub.install_crd(&crd_yaml().await).await;
    hub.create_addon(&json!({})).await;
    let _manager = start_controllers(spoke).await;
    CollectorPods::run_during(spoke, async |pods| {
        run_lifecycle(&fixture, pods, &source, &receiver).await;
    })
    .await;
}

async fn run_lifecycle(
    fixture: &Fixture,
    pods: &CollectorPods,
    source: &ScriptedServer,
    receiver: &ScriptedServer,
) {
    let (spoke, hub) = (&fixture.spoke, &fixture.hub);
    let (on_spoke, on_hub) = (spoke.status_history().await, hub.status_history().await);

    let _status = fixture.start_status(&[]).await;
    let platform_url = format!("--platform-url={}", source.url());
    let uwl_url = format!("--uwl-url={}", source.url());
    let _operator = start_operator(spoke, &[&platform_url, &uwl_url]).await;
    spoke.until_condition("Available").await;
    let first = until_pods(pods, 2, &[]).await;

    // Pods are replaced. The old ones forward until the new ones are ready, but their reports are
    // ignored.
    patch_spec(spoke, json!({ "interval": 77 })).await;
    until_pods(pods, 2, &first).await;
    spoke.until_condition("Available").await;

    receiver.set_script(|_| (404, "no receiver".to_owned()));
    spoke.until_condition("Degraded").await;
    receiver.set_script(|_| (204, String::new()));
    spoke.until_condition("Available").await;

    let set = format!("{UWL_PROMETHEUS}/prometheus-user-workload");
    rest::delete(&spoke.client, &set).await.unwrap();
    until_pods(pods, 1, &[]).await;
    poll::until("its condition to be removed", TIMEOUT, async || {
        Ok(condition(&spoke.addon().await, UWL_STATUS)
            .is_null()
            .then_some(()))
    })
    .await
    .unwrap();
    create_uwl_prometheus(spoke).await;
    until_deployment(spoke, UWL_COLLECTOR, |_| true).await;
    until_pods(pods, 2, &[]).await;
    spoke.until_condition("Available").await;

    patch_spec(spoke, json!({ "enableMetrics": false })).await;
    spoke.until_condition("Disabled").await;
    until_pods(pods, 0, &[]).await;
    patch_spec(spoke, json!({ "enableMetrics": true })).await;
    until_pods(pods, 2, &[]).await;
    let last = spoke.until_condition("Available").await;

    on_spoke.until_recorded(&last).await;
    let transitions = [
        "-",
        "Progressing",
        "Available",
        // New pods.
        "Progressing",
        "Available",
        // The receiver rejects all samples.
        "Degraded",
        "Available",
        // User workloads are back.
        "Progressing",
        "Available",
        // Metrics are disabled and enabled.
        "Disabled",
        "Progressing",
        "Available",
    ];
    assert_eq!(on_spoke.checked_transitions(), transitions);
    // The hub may miss some transitions, but has no others.
    let last = poll::until("the hub to have the current status", TIMEOUT, async || {
        let (ours, theirs) = (spoke.addon().await, hub.addon().await);
        let same = ours["status"]["conditions"] == theirs["status"]["conditions"];
        Ok(same.then_some(theirs))
    });
    on_hub.until_recorded(&last.await.unwrap()).await;
    let mut expected = transitions.iter();
    let on_hub = on_hub.checked_transitions();
    assert!(
        on_hub.iter().all(|one| expected.any(|other| other == one)),
        "{on_hub:?}"
    );

    rest::delete(&spoke.client, &spoke.addon_path())
        .await
        .unwrap();
    until_pods(pods, 0, &[]).await;
    poll::until("all objects to be deleted", TIMEOUT, async || {
        let services = rest::get(&spoke.client, &core_path("services")).await?;
        Ok((services["items"] == json!([])).then_some(()))
    })
    .await
    .unwrap();
}
