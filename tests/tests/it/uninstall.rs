//! Uninstalling the chart leaves no fence behind: `deploy/lift-fences.sh` lifts all of them.

use std::fs;
use std::process::Output;

use kelpie_e2e::ControlPlane;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use xtask::cache;

use crate::helm_chart::Fixture;

const NAMESPACE: &str = "shoot--dev--one";
const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// A Deployment with these replicas; if `fenced`, with a record of the replicas it had.
fn deployment(name: &str, replicas: u32, fenced: Option<&str>) -> Value {
    let mut annotations = json!({});
    if let Some(recorded) = fenced {
        annotations = json!({ MARKER: "", RECORD: recorded });
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE, "annotations": annotations },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": name, "image": "registry.example/none" }] },
            },
        },
    })
}

fn health_check(name: &str, paused: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineHealthCheck",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": { PAUSED: paused },
        },
        "spec": { "clusterName": "one", "selector": { "matchLabels": { "pool": "a" } } },
    })
}

/// Runs the script as an operator would, with kubectl on the `PATH`.
async fn lift(control_plane: &ControlPlane, folder: &TempDir, arguments: &[&str]) -> Output {
    let api = &control_plane.api;
    let kubeconfig = folder.path().join("seed.kubeconfig");
    fs::write(&kubeconfig, api.kubeconfig(&api.admin())).unwrap();
    let tools = cache::folder().unwrap();
    let mut script = Command::new(cache::repository().join("deploy/lift-fences.sh"));
    script
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", folder.path())
        .env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    script.output().await.unwrap()
}

async fn get(control_plane: &ControlPlane, kind: &str, name: &str) -> Value {
    let namespace = format!("--namespace={NAMESPACE}");
    let get = ["get", kind, name, &namespace, "--output=json"];
    serde_json::from_str(&control_plane.api.kubectl(&get).await.unwrap()).unwrap()
}

#[tokio::test]
async fn script_lifts_every_fence() {
    let fixture = Fixture::with_chart().await;
    let control_plane = fixture.control_plane();
    let api = &control_plane.api;
    let checks = "machinehealthchecks.cluster.x-k8s.io";
    api.install_crds(&[checks]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let objects = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        deployment("kube-controller-manager", 0, Some("2")),
        deployment("machine-controller-manager", 0, Some("1")),
        deployment("cluster-autoscaler", 0, None),
        deployment("etcd-backup", 3, None),
        health_check("ours", "kelpie/2026-01-02T03:04:05Z"),
        health_check("theirs", "maintenance"),
    ];
    let file = folder.path().join("objects.yaml");
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    fs::write(&file, documents.join("\n---\n")).unwrap();
    let apply = ["apply", "--filename", file.to_str().unwrap()];
    api.kubectl(&apply).await.unwrap();

    fixture.uninstall().await;
    let rehearsal = lift(control_plane, &folder, &["--dry-run"]).await;
    assert!(rehearsal.status.success(), "{rehearsal:?}");
    let manager = get(control_plane, "deployment", "kube-controller-manager").await;
    assert_eq!(manager["spec"]["replicas"], 0, "a dry run writes nothing");

    let lifted = lift(control_plane, &folder, &[]).await;
    assert!(lifted.status.success(), "{lifted:?}");
    let expected = [
        ("kube-controller-manager", 2),
        ("machine-controller-manager", 1),
        ("cluster-autoscaler", 0),
        ("etcd-backup", 3),
    ];
    for (name, replicas) in expected {
        let found = get(control_plane, "deployment", name).await;
        assert_eq!(found["spec"]["replicas"], replicas, "{name}");
        let marker = &found["metadata"]["annotations"][MARKER];
        assert!(marker.is_null(), "{name} is still marked");
    }
    let paused = async |name| {
        let found = get(control_plane, checks, name).await;
        found["metadata"]["annotations"][PAUSED].clone()
    };
    assert_eq!(paused("ours").await, Value::Null);
    assert_eq!(paused("theirs").await, "maintenance");

    let again = lift(control_plane, &folder, &[]).await;
    assert!(again.status.success(), "{again:?}");
    assert_eq!(again.stdout, b"Nothing is fenced.\n");
}

#[tokio::test]
async fn script_refuses_while_records_are_on_a_lease() {
    let control_plane = ControlPlane::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "dwd-prober-leader-election",
            "namespace": "default",
            "annotations": { "kelpie.dev/fence-records": "{\"kube-controller-manager\":{}}" },
        },
    });
    let file = folder.path().join("lease.yaml");
    fs::write(&file, lease.to_string()).unwrap();
    let apply = ["apply", "--filename", file.to_str().unwrap()];
    control_plane.api.kubectl(&apply).await.unwrap();
    let refused = lift(&control_plane, &folder, &[]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        reason.contains("default/dwd-prober-leader-election"),
        "{reason}"
    );
}
