//! docs/examples/spoke.yaml, put on a real spoke with a hub.

use std::fs;

use kelpie_e2e::Pod;
use serde_json::Value;
use xtask::cache;

use super::collectors::{
    PLATFORM, UWL, container, prometheus, until_deployment, until_reason, uwl_prometheus,
};
use super::stage::{CLUSTER, Cluster, M, NAMESPACE, Stage, U, definition};

async fn apply(cluster: &Cluster, text: &str) {
    let file = cluster.keep("applied.yaml", text);
    let file = format!("--filename={}", file.display());
    cluster.api.kubectl(&["apply", &file]).await.unwrap();
}

fn read(file: &str) -> String {
    fs::read_to_string(cache::repository().join(file)).unwrap()
}

#[tokio::test]
async fn the_example_collects_what_it_lists_and_reaches_the_hub() {
    let Stage { spoke, hub, .. } = &Stage::bare().await;
    for namespace in ["openshift-monitoring", "openshift-user-workload-monitoring"] {
        spoke.namespace(namespace).await;
    }
    prometheus(spoke).await;
    uwl_prometheus(spoke).await;
    for cluster in [spoke, hub] {
        cluster.install(&definition().await).await;
    }
    for part in ["operator", "status", "collector"] {
        apply(spoke, &read(&format!("deploy/rbac/addon-{part}.yaml"))).await;
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
    for part in ["operator", "status"] {
        let name = format!("kelpie-addon-{part}");
        let pod = Pod::of(&spoke.api, NAMESPACE, &name).await.unwrap();
        running.push((pod.start().await.unwrap(), pod));
    }
    until_reason(spoke, M, "UpdateSuccessful").await;
    until_reason(spoke, U, "UpdateSuccessful").await;
    hub.until("Progressing").await;
    for (collector, wanted) in [
        (
            PLATFORM,
            r#"--match={__name__="apiserver_request_total",code=~"5.."}"#,
        ),
        (PLATFORM, "cluster:cpu_usage_cores:sum"),
        (UWL, r#"--match={__name__="http_requests_total"}"#),
    ] {
        let deployment = until_deployment(spoke, collector, |_| true).await;
        let arguments = container(&deployment)["args"].as_array().unwrap();
        let mut words = arguments.iter().filter_map(Value::as_str);
        assert!(
            words.any(|word| word.contains(wanted)),
            "{wanted}: {arguments:#?}"
        );
    }
}
