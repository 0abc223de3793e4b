//! `kelpie addon operator`: what it deploys, and what it says about it.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::collectors::{
    HUB_INFO, PLATFORM, PROMETHEUS, UWL, UWL_PROMETHEUS, allowlist, container, core, deployments,
    environment, find, hub_info, operator, prometheus, speak, spoke, until_deployment,
    until_passes, until_reason, uwl_prometheus,
};
use super::stage::{M, NAMESPACE, PATIENCE, U, condition};

#[tokio::test]
async fn a_boot_is_progressing_then_available_and_an_unchanged_world_is_never_written() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let history = spoke.history().await;
    uwl_prometheus(spoke).await;
    let _status = stage.status(&[]).await;
    let operator = operator(spoke, &["--resync=300ms"]).await;
    spoke.until("Progressing").await;
    let platform = until_deployment(spoke, PLATFORM, |_| true).await;
    let uwl = until_deployment(spoke, UWL, |_| true).await;
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
    for wanted in [
        "--to-upload=https://hub.example/api/v1/write",
        "--interval=300s",
        "--label=cluster=spoke-1",
        "--match={__name__=\"up\"}",
        "--match={__name__=~\"apiserver.*\"}",
    ] {
        assert!(arguments.contains(&wanted), "{arguments:?}");
    }
    assert_eq!(
        speak(spoke, "platform", "ForwardSuccessful", &platform)
            .await
            .0,
        Some(0)
    );
    assert_eq!(
        speak(spoke, "uwl", "ForwardSuccessful", &uwl).await.0,
        Some(0)
    );
    let last = spoke.until("Available").await;

    until_passes(&operator, 10.0).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&spoke.addon().await), version(&last));
    assert_eq!(
        version(&find(spoke, PLATFORM).await.unwrap()),
        version(&platform)
    );
    assert_eq!(version(&find(spoke, UWL).await.unwrap()), version(&uwl));
    history.until_seen(&last).await;
    assert_eq!(history.standings(), ["-", "Progressing", "Available"]);
}

#[tokio::test]
async fn a_new_template_is_a_rollout_and_what_is_none_flips_nothing() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let operator = operator(spoke, &["--resync=300ms"]).await;
    let first = until_deployment(spoke, PLATFORM, |_| true).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    speak(spoke, "platform", "ForwardSuccessful", &first).await;

    // Somebody deletes the Service: it comes back, and nobody is told.
    let service = format!("{}/{PLATFORM}", core("services"));
    rest::delete(&spoke.client, &service).await.unwrap();
    poll::until("the Service to be back", PATIENCE, async || {
        rest::find(&spoke.client, &service).await
    })
    .await
    .unwrap();
    until_passes(&operator, 2.0).await;
    assert_eq!(
        condition(&spoke.addon().await, M)["reason"],
        "ForwardSuccessful"
    );

    // Another interval: a rollout, which the old pod cannot end.
    let patch = json!({ "spec": { "interval": 60 } });
    rest::merge(&spoke.client, &spoke.path(), &patch)
        .await
        .unwrap();
    until_reason(spoke, M, "UpdateSuccessful").await;
    let second = until_deployment(spoke, PLATFORM, |deployment| {
        environment(deployment, "KELPIE_ADDON_ROLLOUT")
            != environment(&first, "KELPIE_ADDON_ROLLOUT")
    })
    .await;
    let (code, said) = speak(spoke, "platform", "ForwardSuccessful", &first).await;
    assert_eq!(code, Some(3), "{said}");
    speak(spoke, "platform", "ForwardSuccessful", &second).await;
    until_reason(spoke, M, "ForwardSuccessful").await;

    // Somebody edits the Deployment: it is put right, which replaces the pods once more.
    let path = format!("{}/{PLATFORM}", deployments());
    let edit = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mine" }]);
    let patched = spoke
        .api
        .kubectl(&[
            "--namespace",
            NAMESPACE,
            "patch",
            "deployment",
            PLATFORM,
            "--type=json",
            &format!("--patch={edit}"),
        ])
        .await;
    patched.unwrap();
    until_reason(spoke, M, "UpdateSuccessful").await;
    let third = rest::read(&spoke.client, &path).await.unwrap();
    assert_eq!(container(&third)["image"], "kelpie:test");
    speak(spoke, "platform", "ForwardSuccessful", &third).await;
    until_passes(&operator, 2.0).await;
    assert_eq!(
        condition(&spoke.addon().await, M)["reason"],
        "ForwardSuccessful"
    );
}

#[tokio::test]
async fn switching_off_and_on_and_losing_prometheus_are_told_and_undone() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let _status = stage.status(&[]).await;
    let _operator = operator(spoke, &["--resync=500ms"]).await;
    let deployment = until_deployment(spoke, PLATFORM, |_| true).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    speak(spoke, "platform", "ForwardSuccessful", &deployment).await;
    spoke.until("Available").await;

    let enable = async |on: bool| {
        let patch = json!({ "spec": { "enableMetrics": on } });
        rest::merge(&spoke.client, &spoke.path(), &patch)
            .await
            .unwrap();
    };
    enable(false).await;
    spoke.until("Disabled").await;
    until_deployment(spoke, PLATFORM, |deployment| {
        deployment["spec"]["replicas"] == 0
    })
    .await;
    // The pod that is going has no word any more.
    assert_eq!(
        speak(spoke, "platform", "ForwardFailure", &deployment)
            .await
            .0,
        Some(3)
    );
    enable(true).await;
    spoke.until("Progressing").await;
    let again = until_deployment(spoke, PLATFORM, |deployment| {
        deployment["spec"]["replicas"] == 1
    })
    .await;
    assert_eq!(
        speak(spoke, "platform", "ForwardSuccessful", &again)
            .await
            .0,
        Some(0)
    );
    spoke.until("Available").await;

    let service = format!("{PROMETHEUS}/prometheus-k8s");
    rest::delete(&spoke.client, &service).await.unwrap();
    let addon = spoke.until("NotSupported").await;
    let message = condition(&addon, M)["message"].as_str().unwrap();
    assert!(
        message.contains("prometheus-k8s in namespace openshift-monitoring"),
        "{message}"
    );
    poll::until("the collector to go", PATIENCE, async || {
        Ok(find(spoke, PLATFORM).await.is_none().then_some(()))
    })
    .await
    .unwrap();
    prometheus(spoke).await;
    spoke.until("Progressing").await;
    until_deployment(spoke, PLATFORM, |_| true).await;

    // User workloads come and go.
    uwl_prometheus(spoke).await;
    let uwl = until_deployment(spoke, UWL, |_| true).await;
    until_reason(spoke, U, "UpdateSuccessful").await;
    speak(spoke, "uwl", "ForwardFailure", &uwl).await;
    spoke.until("Degraded").await;
    rest::delete(
        &spoke.client,
        &format!("{UWL_PROMETHEUS}/prometheus-user-workload"),
    )
    .await
    .unwrap();
    poll::until(
        "the collector of user workloads and its condition to go",
        PATIENCE,
        async || {
            let addon = spoke.addon().await;
            let is_gone = find(spoke, UWL).await.is_none() && condition(&addon, U).is_null();
            Ok((is_gone && addon["status"]["rollouts"].get("uwl").is_none()).then_some(()))
        },
    )
    .await
    .unwrap();
    spoke.until("Progressing").await;
}

#[tokio::test]
async fn what_is_missing_or_broken_is_named_and_mended_by_itself() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let secret = format!("{}/hub-info-secret", core("secrets"));
    let map = format!("{}/observability-metrics-allowlist", core("configmaps"));
    rest::delete(&spoke.client, &secret).await.unwrap();
    let _operator = operator(spoke, &["--resync=1m"]).await;
    let says = async |words: &str| {
        poll::until(words, PATIENCE, async || {
            let now = condition(&spoke.addon().await, M).clone();
            let message = now["message"].as_str().unwrap_or_default();
            let is_said = now["reason"] == "UpdateFailure" && message.contains(words);
            Ok(is_said.then_some(()))
        })
        .await
        .unwrap();
    };
    says("there is no Secret hub-info-secret").await;
    assert!(find(spoke, PLATFORM).await.is_none());
    hub_info(
        spoke,
        "cluster-name: a\nobservatorium-api-endpoint: nonsense\n",
    )
    .await;
    says("is no http(s) URL").await;
    rest::delete(&spoke.client, &secret).await.unwrap();
    hub_info(spoke, HUB_INFO).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    rest::delete(&spoke.client, &map).await.unwrap();
    says("there is no ConfigMap observability-metrics-allowlist").await;
    assert!(find(spoke, PLATFORM).await.is_some(), "it stays as it is");
    allowlist(spoke).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
}

#[tokio::test]
async fn without_status_everything_is_deployed_and_nothing_said() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let operator = operator(spoke, &["--no-status", "--resync=300ms"]).await;
    let deployment = until_deployment(spoke, PLATFORM, |_| true).await;
    let arguments = container(&deployment)["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--no-status")), "{arguments:?}");
    until_passes(&operator, 2.0).await;
    assert!(spoke.addon().await.get("status").is_none());
}
