//! docs/examples/spoke.yaml applied to a real spoke with a hub.

use std::fs;

use kelpie_e2e::LocalPod;
use serde_json::Value;
use xtask::cache;

use super::fixture::operator::{
    PLATFORM_COLLECTOR, UWL_COLLECTOR, container, create_prometheus, create_uwl_prometheus,
    until_deployment, until_reason,
};
use super::fixture::{
    AddonCluster, CLUSTER, Fixture, NAMESPACE, PLATFORM_STATUS, UWL_STATUS, crd_yaml,
};

async fn apply(cluster: &AddonCluster, text: &str) {
    let file = cluster.write_file("applied.yaml", text);
    let file = format!("--filename={}", file.display());
    cluster.api.kubectl(&["apply", &file]).await.unwrap();
}

fn read(file: &str) -> String {
    fs::read_to_string(cache::repository().join(file)).unwrap()
}

#[tokio::test]
async fn example_manifest_works() {
    let Fixture { spoke, hub, .. } = &Fixture::without_crd().await;
    for namespace in ["openshift-monitoring", "openshift-user-workload-monitoring"] {
        spoke.create_namespace(namespace).await;
    }
    create_prometheus(spoke).await;
    create_uwl_prometheus(spoke).await;
    for cluster in [spoke, hub] {
        cluster.install_crd(&crd_yaml().await).await;
    }
    for component in ["operator", "status", "collector"] {
        apply(spoke, &read(&format!("deploy/rbac/addon-{component}.yaml"))).await;
    }
    apply(hub, &read("deploy/rbac/addon-hub.yaml")).await;
    hub.create_addon(&serde_json::json!({})).await;

    let account = format!("system:serviceaccount:{CLUSTER}:kelpie-addon-status");
    let account = hub.api.user(&account, &[]).unwrap();
    let kubeconfig = Value::from(hub.api.kubeconfig(&account)).to_string();
    let example = read("docs/examples/spoke.yaml");
    assert_eq!(example.matches("kubeconfig: KUBECONFIG").count(), 1);
    let example = example.replace(
        "kubeconfig: KUBECONFIG",
        &format!("kubeconfig: {kubeconfig}"),
    );
    apply(spoke, &example).await;

    let mut running = Vec::new();
    for component in ["operator", "status"] {
        let name = format!("kelpie-addon-{component}");
        let pod = LocalPod::from_deployment(&spoke.api, NAMESPACE, &name)
            .await
            .unwrap();
        running.push((pod.start().await.unwrap(), pod));
    }
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    until_reason(spoke, UWL_STATUS, "UpdateSuccessful").await;
    hub.until_condition("Progressing").await;
    for (collector, expected) in [
        (
            PLATFORM_COLLECTOR,
            r#"--match={__name__="apiserver_request_total",code=~"5.."}"#,
        ),
        (PLATFORM_COLLECTOR, "cluster:cpu_usage_cores:sum"),
        (UWL_COLLECTOR, r#"--match={__name__="http_requests_total"}"#),
    ] {
        let deployment = until_deployment(spoke, collector, |_| true).await;
        let arguments = container(&deployment)["args"].as_array().unwrap();
        let mut arguments_text = arguments.iter().filter_map(Value::as_str);
        assert!(
            arguments_text.any(|argument| argument.contains(expected)),
            "{expected}: {arguments:#?}"
        );
    }
}
