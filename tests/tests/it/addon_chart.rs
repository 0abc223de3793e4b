//! The Helm chart of the addon: the real helm lints it and installs it on a real API server, and
//! the binary runs as its pods would.

use std::process::Stdio;
use std::time::Duration;

use kelpie_e2e::{ControlPlane, LocalPod};
use xtask::cache;

const NAMESPACE: &str = "observability";
const TIMEOUT: Duration = Duration::from_mins(1);
const SETTINGS: [&str; 4] = [
    "--set=image.repository=registry.example/kelpie,spoke.hubKubeconfigSecret=",
    "--set=spoke.openshift.enabled=true,hub.enabled=true",
    "--set-json=spoke.allowlist={\"names\":[\"up\"]}",
    "--set-json=spoke.collectors={\"nodeSelector\":{\"infra\":\"yes\"}}",
];

fn chart() -> String {
    let chart = cache::repository().join("deploy/charts/kelpie-addon");
    chart.to_str().unwrap().to_owned()
}

/// Runs helm without a cluster. Returns its output, or its stderr if it fails.
async fn helm(arguments: &[&str]) -> Result<String, String> {
    let mut helm = tokio::process::Command::new(cache::find("helm").unwrap());
    let output = helm.args(arguments).stdin(Stdio::null()).output().await;
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

#[tokio::test]
async fn chart_is_clean_and_refuses_typos() {
    let chart = chart();
    let lint = [&["lint", "--strict", &chart][..], &SETTINGS].concat();
    helm(&lint).await.unwrap();
    let template = [&["template", "a", &chart][..], &SETTINGS].concat();
    for (setting, key) in [
        ("--set=spoke.addon.spec.intervall=60", "intervall"),
        ("--set-json=spoke.allowlist={\"name\":[\"up\"]}", "name"),
        ("--set=hub.enable=true", "enable"),
        (
            "--set=spoke.hubKubeconfigSecret=hub",
            "spoke.clusterName is not set",
        ),
    ] {
        let error = helm(&[&template[..], &[setting]].concat())
            .await
            .unwrap_err();
        assert!(error.contains(key), "{error}");
    }
}

#[tokio::test]
async fn installed_processes_start_and_lead() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    for namespace in ["openshift-monitoring", "openshift-user-workload-monitoring"] {
        api.kubectl(&["create", "namespace", namespace])
            .await
            .unwrap();
    }
    let namespace = format!("--namespace={NAMESPACE}");
    let chart = chart();
    let install = ["install", "addon", &chart, &namespace, "--create-namespace"];
    api.helm(&[&install[..], &SETTINGS].concat()).await.unwrap();
    for process in ["operator", "status", "hop"] {
        let name = format!("kelpie-addon-{process}");
        let pod = LocalPod::from_deployment(api, NAMESPACE, &name)
            .await
            .unwrap();
        let running = pod.start().await.unwrap();
        running
            .until_line(&["became leader"], TIMEOUT)
            .await
            .unwrap();
        running.stop().await.unwrap();
    }
    let get = [
        "get",
        "observabilityaddon",
        "observability-addon",
        &namespace,
        "--output=name",
    ];
    api.kubectl(&get).await.unwrap();
    api.helm(&["uninstall", "addon", &namespace]).await.unwrap();
    let left = [
        "get",
        "deployments,roles,rolebindings",
        &namespace,
        "--output=name",
    ];
    assert_eq!(api.kubectl(&left).await.unwrap().trim(), "");
}
