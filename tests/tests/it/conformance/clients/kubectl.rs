//! The real kubectl.

use std::process::Stdio;
use std::time::Duration;

use kelpie_sim::resource::PODS;
use kelpie_sim::{ObjectSelector, WriteScope};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::{cluster, deployment};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Splits each line into words.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[tokio::test]
async fn kubectl_gets_and_lists() {
    let simulated = cluster().await;
    let kubectl = async |arguments: &[&str]| simulated.kubectl(arguments).await.unwrap();

    let nodes = kubectl(&["get", "nodes"]).await;
    let nodes = words(&nodes);
    assert_eq!(nodes[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(nodes[1][..3], ["n1", "Ready", "<none>"]);
    assert_eq!(nodes[1][4], "v1.36.4");
    let deployments = kubectl(&["get", "deploy", "kcm", "--no-headers"]).await;
    assert_eq!(words(&deployments)[0][..2], ["kcm", "0/2"]);
    let pods = kubectl(&["get", "po", "--selector=app=kcm", "--output=name"]).await;
    assert_eq!(pods, "pod/kcm-a\npod/kcm-b\n");
    let all = kubectl(&["get", "all", "--all-namespaces", "--output=name"]).await;
    assert!(all.contains("deployment.apps/kcm"), "{all}");
    let paged = kubectl(&["get", "namespaces", "--chunk-size=1", "--output=name"]).await;
    assert_eq!(paged.lines().count(), 4);
    let json = kubectl(&["get", "deployment", "kcm", "--output=json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["spec"]["replicas"], 2);
    let described = kubectl(&["describe", "pod", "kcm-a"]).await;
    assert!(described.contains("app=kcm"), "{described}");
    let resources = kubectl(&["api-resources", "--output=name"]).await;
    assert!(
        resources.contains("leases.coordination.k8s.io"),
        "{resources}"
    );
    let version = kubectl(&["version"]).await;
    assert!(version.contains("Server Version: v1.36.4"), "{version}");
    let error = simulated
        .kubectl(&["get", "pod", "nothing"])
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(error.contains("pods \"nothing\" not found"), "{error}");
}

#[tokio::test]
async fn kubectl_patches_scales_and_deletes() {
    let simulated = cluster().await;
    let kubectl = async |arguments: &[&str]| simulated.kubectl(arguments).await.unwrap();

    kubectl(&["scale", "deployment", "kcm", "--replicas=0"]).await;
    assert_eq!(deployment(&simulated)["spec"]["replicas"], 0);
    let mismatch = [
        "scale",
        "deployment",
        "kcm",
        "--current-replicas=5",
        "--replicas=1",
    ];
    simulated.kubectl(&mismatch).await.unwrap_err();
    for (kind, patch) in [
        ("merge", r#"{"metadata":{"annotations":{"a":"1"}}}"#),
        ("strategic", r#"{"metadata":{"annotations":{"b":"2"}}}"#),
        (
            "json",
            r#"[{"op":"add","path":"/metadata/annotations/c","value":"3"}]"#,
        ),
    ] {
        let kind = format!("--type={kind}");
        kubectl(&["patch", "deployment", "kcm", &kind, "--patch", patch]).await;
    }
    kubectl(&["annotate", "deployment", "kcm", "d=4"]).await;
    kubectl(&["label", "deployment", "kcm", "e=5"]).await;
    let metadata = &deployment(&simulated)["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({ "a": "1", "b": "2", "c": "3", "d": "4" })
    );
    assert_eq!(metadata["labels"]["e"], "5");
    kubectl(&["cordon", "n1"]).await;
    let deleted = kubectl(&["delete", "pod", "kcm-a", "--timeout=30s"]).await;
    assert!(deleted.starts_with("pod \"kcm-a\" deleted"), "{deleted}");
    kubectl(&["delete", "pods", "--selector=app=kcm", "--timeout=30s"]).await;
    kubectl(&["delete", "deployment/kcm", "node/n2", "--timeout=30s"]).await;
    let (pods, _) = simulated
        .server
        .store()
        .list(&PODS, &ObjectSelector::all())
        .unwrap();
    assert!(pods.is_empty(), "{pods:?}");
}

#[tokio::test]
async fn kubectl_applies() {
    let simulated = cluster().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("map.json");
    let path = file.display().to_string();
    for (value, more) in [
        ("1", [].as_slice()),
        ("2", &[]),
        ("3", &["--server-side", "--force-conflicts"]),
    ] {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "applied", "namespace": "default" },
            "data": { "k": value },
        });
        std::fs::write(&file, map.to_string()).unwrap();
        let arguments = [&["apply", "--filename", &path], more].concat();
        simulated.kubectl(&arguments).await.unwrap();
        let read = ["get", "configmap", "applied", "--output=jsonpath={.data.k}"];
        assert_eq!(simulated.kubectl(&read).await.unwrap(), value);
    }
}

#[tokio::test]
async fn kubectl_creates_objects_as_protobuf() {
    let simulated = cluster().await;
    let kubectl = async |arguments: &[&str]| simulated.kubectl(arguments).await.unwrap();
    kubectl(&["create", "namespace", "made"]).await;
    let here = ["--namespace", "made"];
    for kind in [
        &["configmap", "one", "--from-literal=k=v"][..],
        &["secret", "generic", "one", "--from-literal=k=v"],
        &[
            "deployment",
            "one",
            "--image=none",
            "--replicas=2",
            "--port=80",
        ],
        &["serviceaccount", "one"],
        &["service", "clusterip", "one", "--tcp=80:web"],
        &[
            "poddisruptionbudget",
            "one",
            "--selector=a=b",
            "--min-available=50%",
        ],
        &["clusterrole", "one", "--verb=get", "--resource=pods"],
        &[
            "clusterrolebinding",
            "one",
            "--clusterrole=one",
            "--serviceaccount=made:one",
        ],
    ] {
        kubectl(&[&here, &["create"][..], kind].concat()).await;
    }
    for (kind, expected) in [("configmap", "v"), ("secret", "dg==")] {
        let read = ["get", kind, "one", "--output=jsonpath={.data.k}"];
        assert_eq!(kubectl(&[&here[..], &read].concat()).await, expected);
    }
    let spec = "--output=jsonpath={.spec.replicas} {..matchLabels.app} {..image} {..containerPort}";
    let read = ["get", "deployment", "one", spec];
    let created = kubectl(&[&here[..], &read].concat()).await;
    assert_eq!(created, "2 one none 80");
    for (kind, path, expected) in [
        (
            "service",
            "{.spec.ports[0].port} {..targetPort} {.spec.selector.app}",
            "80 web one",
        ),
        ("pdb", "{.spec.minAvailable} {..matchLabels.a}", "50% b"),
        (
            "clusterrole",
            "{.rules[0].verbs[0]} {..resources[0]}",
            "get pods",
        ),
        (
            "clusterrolebinding",
            "{.roleRef.name} {.subjects[0].namespace}",
            "one made",
        ),
    ] {
        let path = format!("--output=jsonpath={path}");
        let read = ["get", kind, "one", &path];
        assert_eq!(kubectl(&[&here[..], &read].concat()).await, expected);
    }
}

#[tokio::test]
async fn kubectl_auth_and_explain() {
    let simulated = cluster().await;
    let kubectl = async |arguments: &[&str]| simulated.kubectl(arguments).await.unwrap();
    let allowed = kubectl(&["auth", "can-i", "get", "pods"]).await;
    assert_eq!(allowed, "yes\n");
    let allowed = kubectl(&["auth", "can-i", "get", "/metrics"]).await;
    assert_eq!(allowed, "yes\n");
    let all = kubectl(&["auth", "can-i", "--list"]).await;
    assert!(all.contains("*.*"), "{all}");
    let user = kubectl(&["auth", "whoami"]).await;
    assert!(user.contains("system:masters"), "{user}");
    let explained = kubectl(&["explain", "deployments"]).await;
    assert!(explained.contains("KIND:       Deployment"), "{explained}");
    assert!(explained.contains("simulated"), "{explained}");
}

#[tokio::test]
async fn kubectl_installs_gardener_crds() {
    let simulated = cluster().await;
    let folder = xtask::cache::find("crds").unwrap();
    let file = |name: &str| format!("--filename={}/{name}.yaml", folder.display());
    let machines = file("machines.machine.sapcloud.io");
    let clusters = file("clusters.extensions.gardener.cloud");
    simulated
        .kubectl(&["create", &machines, &clusters])
        .await
        .unwrap();
    let wait = [
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        &machines,
        &clusters,
    ];
    simulated.kubectl(&wait).await.unwrap();
    let machine = folder_with(&json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m1", "namespace": "default" },
        "spec": { "providerID": "p" },
    }));
    let path = machine.path().join("object.json").display().to_string();
    simulated
        .kubectl(&["create", "--filename", &path])
        .await
        .unwrap();
    let listed = simulated
        .kubectl(&["get", "mc", "--output=name"])
        .await
        .unwrap();
    assert_eq!(listed, "machine.machine.sapcloud.io/m1\n");
}

fn folder_with(object: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("object.json"), object.to_string()).unwrap();
    folder
}

#[tokio::test]
async fn kubectl_watches() {
    let simulated = cluster().await;
    let arguments = ["get", "pods", "--watch", "--no-headers"];
    let mut command = simulated.kubectl_command(&arguments).unwrap();
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = timeout(TIMEOUT, lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("no end")
    };
    let store = simulated.server.store();
    assert!(next().await.starts_with("kcm-a"));
    assert!(next().await.starts_with("kcm-b"));
    let run = |pod: &mut Value| pod["status"]["phase"] = json!("Running");
    store
        .modify(&PODS, "default", "kcm-b", WriteScope::Status, run)
        .unwrap();
    let line = next().await;
    assert!(
        line.starts_with("kcm-b") && line.contains("Running"),
        "{line}"
    );
    child.kill().await.unwrap();
}
