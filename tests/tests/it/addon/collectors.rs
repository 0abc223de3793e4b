//! What collectors are made from, on a spoke, and the collectors' own words.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kelpie_e2e::landscape::rest;
use kelpie_e2e::{Kelpie, poll};
use serde_json::{Value, json};

use super::stage::{Alone, Cluster, NAMESPACE, PATIENCE, condition, definition, report, server};

pub(super) const PROMETHEUS: &str = "/api/v1/namespaces/openshift-monitoring/services";
pub(super) const UWL_PROMETHEUS: &str =
    "/apis/apps/v1/namespaces/openshift-user-workload-monitoring/statefulsets";
pub(super) const PLATFORM: &str = "metrics-collector";
pub(super) const UWL: &str = "uwl-metrics-collector";

pub(super) fn deployments() -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
}

pub(super) fn core(kind: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{kind}")
}

pub(super) fn hub_info_data(text: &str) -> Value {
    json!({ "hub-info.yaml": BASE64_STANDARD.encode(text) })
}

pub(super) async fn hub_info(spoke: &Cluster, text: &str) {
    let data = hub_info_data(text);
    let secret = json!({ "metadata": { "name": "hub-info-secret" }, "data": data });
    rest::create(&spoke.client, &core("secrets"), &secret)
        .await
        .unwrap();
}

pub(super) const HUB_INFO: &str =
    "cluster-name: spoke-1\nobservatorium-api-endpoint: https://hub.example/api/v1/write\n";

pub(super) async fn allowlist(spoke: &Cluster) {
    let data = json!({
        "metrics_list.yaml": "names: [up]\nmatches: ['__name__=~\"apiserver.*\"']\n",
        "uwl_metrics_list.yaml": "names: [my_metric]\n",
    });
    let map = json!({ "metadata": { "name": "observability-metrics-allowlist" }, "data": data });
    rest::create(&spoke.client, &core("configmaps"), &map)
        .await
        .unwrap();
}

pub(super) async fn prometheus(spoke: &Cluster) {
    let service = json!({
        "metadata": { "name": "prometheus-k8s" },
        "spec": { "ports": [{ "port": 9091 }] },
    });
    rest::create(&spoke.client, PROMETHEUS, &service)
        .await
        .unwrap();
}

pub(super) async fn uwl_prometheus(spoke: &Cluster) {
    let labels = json!({ "app": "uwl" });
    let set = json!({
        "metadata": { "name": "prometheus-user-workload" },
        "spec": {
            "selector": { "matchLabels": labels },
            "serviceName": "uwl",
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        },
    });
    rest::create(&spoke.client, UWL_PROMETHEUS, &set)
        .await
        .unwrap();
}

/// A spoke with the kind, an addon and everything that collectors need, but no user workloads.
pub(super) async fn spoke() -> Alone {
    let stage = Alone::bare().await;
    furnish(&stage.spoke).await;
    stage
}

/// The same for a spoke that has nothing yet.
pub(super) async fn furnish(spoke: &Cluster) {
    furnish_for(spoke, HUB_INFO).await;
}

/// The same for another hub.
pub(super) async fn furnish_for(spoke: &Cluster, hub: &str) {
    spoke.install(&definition().await).await;
    for namespace in ["openshift-monitoring", "openshift-user-workload-monitoring"] {
        spoke.namespace(namespace).await;
    }
    hub_info(spoke, hub).await;
    allowlist(spoke).await;
    prometheus(spoke).await;
    spoke.create_addon(&json!({})).await;
}

pub(super) async fn find(spoke: &Cluster, name: &str) -> Option<Value> {
    let path = format!("{}/{name}", deployments());
    rest::find(&spoke.client, &path).await.unwrap()
}

/// Waits for a Deployment that is such.
pub(super) async fn until_deployment(
    spoke: &Cluster,
    name: &str,
    is_such: impl Fn(&Value) -> bool,
) -> Value {
    poll::until(name, PATIENCE, async || {
        Ok(find(spoke, name)
            .await
            .filter(|deployment| is_such(deployment)))
    })
    .await
    .unwrap()
}

/// Waits until a component has this reason.
pub(super) async fn until_reason(spoke: &Cluster, kind: &str, reason: &str) -> Value {
    let mut last = Value::Null;
    let found = poll::until(reason, PATIENCE, async || {
        last = spoke.addon().await;
        let now = condition(&last, kind);
        Ok((now["reason"] == reason).then(|| now.clone()))
    });
    match found.await {
        Ok(condition) => condition,
        Err(error) => panic!("{error:#}; the last was {:#}", last["status"]),
    }
}

pub(super) fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

pub(super) fn environment<'a>(deployment: &'a Value, name: &str) -> &'a str {
    let variables = container(deployment)["env"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name);
    found.unwrap()["value"].as_str().unwrap()
}

/// A pod of this Deployment forwards, or does not, and says so with what its environment says.
pub(super) async fn speak(
    spoke: &Cluster,
    component: &str,
    reason: &str,
    deployment: &Value,
) -> (Option<i32>, String) {
    let rollout = format!(
        "--rollout={}",
        environment(deployment, "KELPIE_ADDON_ROLLOUT")
    );
    let uid = format!("--uid={}", environment(deployment, "KELPIE_ADDON_UID"));
    report(spoke, component, reason, &[&rollout, &uid]).await
}

pub(super) async fn operator(spoke: &Cluster, flags: &[&str]) -> Kelpie {
    server(
        spoke,
        "operator",
        &[&["--collector-image=kelpie:test"], flags].concat(),
    )
    .await
}

/// Waits for so many more passes in which all was well.
pub(super) async fn until_passes(operator: &Kelpie, more: f64) {
    let passes = "kelpie_addon_operator_passes_total{result=\"clean\"}";
    let before = operator.metric(passes).await.unwrap();
    poll::until("more passes", PATIENCE, async || {
        Ok((operator.metric(passes).await? >= before + more).then_some(()))
    })
    .await
    .unwrap();
}
