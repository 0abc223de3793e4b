//! `kelpie addon operator`: the collectors that it deploys, and the status that it reports.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::fixture::operator::{
    HUB_INFO, PLATFORM_COLLECTOR, PROMETHEUS, UWL_COLLECTOR, UWL_PROMETHEUS, container, core_path,
    create_allowlist, create_hub_info, create_prometheus, create_uwl_prometheus, deployments_path,
    env_var, find_deployment, report_from_pod, spoke_with_inputs, start_operator, until_deployment,
    until_reason, until_reconciles,
};
use super::fixture::{NAMESPACE, PLATFORM_STATUS, TIMEOUT, UWL_STATUS, condition};

#[tokio::test]
async fn startup_ends_available_and_then_writes_nothing() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let history = spoke.status_history().await;
    create_uwl_prometheus(spoke).await;
    let _status = fixture.start_status(&[]).await;
    let operator = start_operator(spoke, &["--resync=300ms"]).await;
    spoke.until_condition("Progressing").await;
    let platform = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    let uwl = until_deployment(spoke, UWL_COLLECTOR, |_| true).await;
    let arguments: Vec<&str> = container(&platform)["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        arguments[..3],
        ["addon", "collector", "--component=platform"]
    );
    for argument in [
        "--to-upload=https://hub.example/api/v1/write",
        "--interval=300s",
        "--label=cluster=spoke-1",
        "--match={__name__=\"up\"}",
        "--match={__name__=~\"apiserver.*\"}",
    ] {
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
    assert_eq!(
        report_from_pod(spoke, "platform", "ForwardSuccessful", &platform)
            .await
            .0,
        Some(0)
    );
    assert_eq!(
        report_from_pod(spoke, "uwl", "ForwardSuccessful", &uwl)
            .await
            .0,
        Some(0)
    );
    let last = spoke.until_condition("Available").await;

    until_reconciles(&operator, 10.0).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&spoke.addon().await), version(&last));
    assert_eq!(
        version(&find_deployment(spoke, PLATFORM_COLLECTOR).await.unwrap()),
        version(&platform)
    );
    assert_eq!(
        version(&find_deployment(spoke, UWL_COLLECTOR).await.unwrap()),
        version(&uwl)
    );
    history.until_recorded(&last).await;
    assert_eq!(
        history.checked_transitions(),
        ["-", "Progressing", "Available"]
    );
}

#[tokio::test]
async fn only_template_changes_start_rollouts() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let operator = start_operator(spoke, &["--resync=300ms"]).await;
    let first = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    report_from_pod(spoke, "platform", "ForwardSuccessful", &first).await;

    // A deleted Service is recreated, and the status does not change.
    let service = format!("{}/{PLATFORM_COLLECTOR}", core_path("services"));
    rest::delete(&spoke.client, &service).await.unwrap();
    poll::until("the Service to be recreated", TIMEOUT, async || {
        rest::get_opt(&spoke.client, &service).await
    })
    .await
    .unwrap();
    until_reconciles(&operator, 2.0).await;
    assert_eq!(
        condition(&spoke.addon().await, PLATFORM_STATUS)["reason"],
        "ForwardSuccessful"
    );

    // A new interval starts a rollout, which a report of the old pod does not complete.
    let patch = json!({ "spec": { "interval": 60 } });
    rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch)
        .await
        .unwrap();
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    let second = until_deployment(spoke, PLATFORM_COLLECTOR, |deployment| {
        env_var(deployment, "KELPIE_ADDON_ROLLOUT") != env_var(&first, "KELPIE_ADDON_ROLLOUT")
    })
    .await;
    let (code, output) = report_from_pod(spoke, "platform", "ForwardSuccessful", &first).await;
    assert_eq!(code, Some(3), "{output}");
    report_from_pod(spoke, "platform", "ForwardSuccessful", &second).await;
    until_reason(spoke, PLATFORM_STATUS, "ForwardSuccessful").await;

    // A manual edit of the Deployment is reverted, which replaces the pods again.
    let path = format!("{}/{PLATFORM_COLLECTOR}", deployments_path());
    let image = "/spec/template/spec/containers/0/image";
    let edit = json!([{ "op": "replace", "path": image, "value": "mine" }]);
    let patched = spoke
        .api
        .kubectl(&[
            "--namespace",
            NAMESPACE,
            "patch",
            "deployment",
            PLATFORM_COLLECTOR,
            "--type=json",
            &format!("--patch={edit}"),
        ])
        .await;
    patched.unwrap();
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    let third = rest::get(&spoke.client, &path).await.unwrap();
    assert_eq!(container(&third)["image"], "kelpie:test");
    report_from_pod(spoke, "platform", "ForwardSuccessful", &third).await;
    until_reconciles(&operator, 2.0).await;
    assert_eq!(
        condition(&spoke.addon().await, PLATFORM_STATUS)["reason"],
        "ForwardSuccessful"
    );
}

#[tokio::test]
async fn disabled_metrics_and_missing_prometheus_are_reported() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let _status = fixture.start_status(&[]).await;
    let _operator = start_operator(spoke, &["--resync=500ms"]).await;
    let deployment = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    report_from_pod(spoke, "platform", "ForwardSuccessful", &deployment).await;
    spoke.until_condition("Available").await;

    let enable = async |on: bool| {
        let patch = json!({ "spec": { "enableMetrics": on } });
        rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch)
            .await
            .unwrap();
    };
    enable(false).await;
    spoke.until_condition("Disabled").await;
    until_deployment(spoke, PLATFORM_COLLECTOR, |deployment| {
        deployment["spec"]["replicas"] == 0
    })
    .await;
    // Reports of the terminating pod are ignored.
    assert_eq!(
        report_from_pod(spoke, "platform", "ForwardFailure", &deployment)
            .await
            .0,
        Some(3)
    );
    enable(true).await;
    spoke.until_condition("Progressing").await;
    let again = until_deployment(spoke, PLATFORM_COLLECTOR, |deployment| {
        deployment["spec"]["replicas"] == 1
    })
    .await;
    assert_eq!(
        report_from_pod(spoke, "platform", "ForwardSuccessful", &again)
            .await
            .0,
        Some(0)
    );
    spoke.until_condition("Available").await;

    let service = format!("{PROMETHEUS}/prometheus-k8s");
    rest::delete(&spoke.client, &service).await.unwrap();
    let addon = spoke.until_condition("NotSupported").await;
    let message = condition(&addon, PLATFORM_STATUS)["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("prometheus-k8s in namespace openshift-monitoring"),
        "{message}"
    );
    poll::until("the collector to be deleted", TIMEOUT, async || {
        Ok(find_deployment(spoke, PLATFORM_COLLECTOR)
            .await
            .is_none()
            .then_some(()))
    })
    .await
    .unwrap();
    create_prometheus(spoke).await;
    spoke.until_condition("Progressing").await;
    until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;

    // User workloads are added and removed.
    create_uwl_prometheus(spoke).await;
    let uwl = until_deployment(spoke, UWL_COLLECTOR, |_| true).await;
    until_reason(spoke, UWL_STATUS, "UpdateSuccessful").await;
    report_from_pod(spoke, "uwl", "ForwardFailure", &uwl).await;
    spoke.until_condition("Degraded").await;
    rest::delete(
        &spoke.client,
        &format!("{UWL_PROMETHEUS}/prometheus-user-workload"),
    )
    .await
    .unwrap();
    poll::until(
        "the user-workload collector and its condition to be removed",
        TIMEOUT,
        async || {
            let addon = spoke.addon().await;
            let is_gone = find_deployment(spoke, UWL_COLLECTOR).await.is_none()
                && condition(&addon, UWL_STATUS).is_null();
            Ok((is_gone && addon["status"]["rollouts"].get("uwl").is_none()).then_some(()))
        },
    )
    .await
    .unwrap();
    spoke.until_condition("Progressing").await;
}

#[tokio::test]
async fn missing_inputs_are_reported_until_fixed() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let secret = format!("{}/hub-info-secret", core_path("secrets"));
    let map = format!(
        "{}/observability-metrics-allowlist",
        core_path("configmaps")
    );
    rest::delete(&spoke.client, &secret).await.unwrap();
    let _operator = start_operator(spoke, &["--resync=1m"]).await;
    let until_message = async |words: &str| {
        poll::until(words, TIMEOUT, async || {
            let now = condition(&spoke.addon().await, PLATFORM_STATUS).clone();
            let message = now["message"].as_str().unwrap_or_default();
            let is_reported = now["reason"] == "UpdateFailure" && message.contains(words);
            Ok(is_reported.then_some(()))
        })
        .await
        .unwrap();
    };
    until_message("there is no Secret hub-info-secret").await;
    assert!(find_deployment(spoke, PLATFORM_COLLECTOR).await.is_none());
    create_hub_info(
        spoke,
        "cluster-name: a\nobservatorium-api-endpoint: nonsense\n",
    )
    .await;
    until_message("is not an http(s) URL").await;
    rest::delete(&spoke.client, &secret).await.unwrap();
    create_hub_info(spoke, HUB_INFO).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    rest::delete(&spoke.client, &map).await.unwrap();
    until_message("there is no ConfigMap observability-metrics-allowlist").await;
    assert!(
        find_deployment(spoke, PLATFORM_COLLECTOR).await.is_some(),
        "the Deployment stays"
    );
    create_allowlist(spoke).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
}

#[tokio::test]
async fn no_status_flag_deploys_without_reporting() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let operator = start_operator(spoke, &["--no-status", "--resync=300ms"]).await;
    let deployment = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    let arguments = container(&deployment)["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--no-status")), "{arguments:?}");
    until_reconciles(&operator, 2.0).await;
    assert!(spoke.addon().await.get("status").is_none());
}
