//! `kelpie check prober` and the RBAC files, on a real API server.

use std::fs;
use std::process::Output;
use std::time::Duration;

use kelpie_e2e::{ApiServer, ControlPlane, get, kelpie, poll};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::cache;

const PROBER: &str = "system:serviceaccount:garden:kelpie-prober";
const SECRET: &str = "shoot-access-dependency-watchdog-probe";

/// A seed with what Gardener has there, and the prober's rights.
async fn seed() -> ControlPlane {
    let plane = ControlPlane::start().await.unwrap();
    let definitions = [
        "clusters.extensions.gardener.cloud",
        "machines.machine.sapcloud.io",
    ];
    plane.api.install_definitions(&definitions).await.unwrap();
    let kubectl = async |arguments: &[&str]| plane.api.kubectl(arguments).await.unwrap();
    kubectl(&["create", "namespace", "garden"]).await;
    kubectl(&["create", "namespace", "shoot--a"]).await;
    let rbac = cache::repository().join("deploy/rbac/prober-seed.yaml");
    kubectl(&["create", "--filename", rbac.to_str().unwrap()]).await;
    plane
}

async fn create(api: &ApiServer, object: &Value) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("object.json");
    fs::write(&file, object.to_string()).unwrap();
    let create = ["create", "--filename", file.to_str().unwrap()];
    api.kubectl(&create).await.unwrap();
}

async fn check(api: &ApiServer, user: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("seed");
    let credentials = api.user(user, &[]).unwrap();
    fs::write(&kubeconfig, api.kubeconfig(&credentials)).unwrap();
    let example = cache::repository().join("docs/examples/prober.yaml");
    let arguments = [
        "check",
        "prober",
        "--enable-leader-election",
        "--output=json",
        &format!("--config-file={}", example.display()),
        &format!("--kubeconfig={}", kubeconfig.display()),
    ];
    kelpie::run(&arguments).await.unwrap()
}

/// The rows of an answer that have this grade, as `about: found`.
fn rows(output: &Output, grade: &str) -> Vec<String> {
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    let rows = answer["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["grade"] == grade);
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.map(|row| format!("{}: {}", text(row, "about"), text(row, "found")))
        .collect()
}

#[tokio::test]
async fn the_generated_rights_are_enough_and_not_more() {
    let plane = seed().await;
    let api = &plane.api;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": "shoot--a"},
        "data": {"token": "c2VjcmV0"},
    });

    let empty = check(api, PROBER).await;
    assert_eq!(rows(&empty, "fail"), [""; 0]);
    assert_eq!(rows(&empty, "warn"), [""; 0]);
    assert!(empty.status.success(), "{empty:?}");

    create(api, &cluster()).await;
    create(api, &secret).await;
    let found = check(api, PROBER).await;
    let unusable = format!(
        "shoot--a: the kubeconfig in Secret {SECRET} cannot be used: it has no key `kubeconfig`"
    );
    assert_eq!(rows(&found, "fail"), [unusable]);
    assert_eq!(found.status.code(), Some(1));

    let client = api.client(&api.user(PROBER, &[]).unwrap()).await.unwrap();
    for (path, status) in [
        ("/api/v1/secrets", 403),
        ("/api/v1/namespaces/shoot--a/secrets/another", 403),
        ("/apis/apps/v1/statefulsets", 403),
        ("/apis/apps/v1/deployments", 200),
        ("/api/v1/pods", 403),
        (
            "/api/v1/secrets?fieldSelector=metadata.name%3Dshoot-access-dependency-watchdog-probe",
            200,
        ),
    ] {
        let answer = get(&client, path, "application/json").await.unwrap();
        assert_eq!(answer.status.as_u16(), status, "{path}");
    }
}

/// Kubeconfigs are handed in as Secrets.
fn secret(kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": "shoot--a"},
        "stringData": {"kubeconfig": kubeconfig},
    })
}

fn cluster() -> Value {
    let shoot = json!({
        "spec": {"provider": {"workers": [{"name": "a"}]}},
        "status": {"lastOperation": {"type": "Reconcile", "state": "Processing"}},
    });
    json!({
        "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "shoot--a"},
        "spec": {"cloudProfile": {}, "seed": {}, "shoot": shoot},
    })
}

#[tokio::test]
async fn a_cluster_is_counted_with_the_generated_rights_and_refused_without_them() {
    let plane = seed().await;
    let shoot = ApiServer::start(&plane.etcd, "shoot").await.unwrap();
    for node in ["one", "two", "three"] {
        let metadata = json!({"name": node});
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        create(&shoot, &object).await;
        let metadata = json!({"name": node, "namespace": "kube-node-lease"});
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        });
        create(&shoot, &object).await;
    }
    let prober = shoot.user("system:serviceaccount:kube-system:kelpie-prober", &[]);
    create(&plane.api, &cluster()).await;
    create(&plane.api, &secret(&shoot.kubeconfig(&prober.unwrap()))).await;

    let refused = check(&plane.api, PROBER).await;
    let failed = rows(&refused, "fail");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("shoot--a: the node leases: "),
        "{failed:?}"
    );

    let rbac = cache::repository().join("deploy/rbac/prober-shoot.yaml");
    let rbac = ["create", "--filename", rbac.to_str().unwrap()];
    shoot.kubectl(&rbac).await.unwrap();
    // Its authorizer hears of new rights by a watch.
    let patience = Duration::from_secs(10);
    let counted = poll::until("the rights to be in force", patience, async || {
        let said = check(&plane.api, PROBER).await;
        Ok(said.status.success().then_some(said))
    });
    let ok = rows(&counted.await.unwrap(), "ok");
    assert!(
        ok.contains(&"shoot--a: 3 nodes, 3 leases".to_owned()),
        "{ok:?}"
    );

    drop(shoot);
    let gone = check(&plane.api, PROBER).await;
    let failed = rows(&gone, "fail");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("shoot--a: /version: "), "{failed:?}");
}

#[tokio::test]
async fn somebody_without_rights_is_told_each_one_that_is_missing() {
    let plane = seed().await;
    let said = check(&plane.api, "nobody").await;
    let failed = rows(&said, "fail");
    for missing in [
        "permission: may not list clusters.extensions.gardener.cloud, nor watch clusters.extensions.gardener.cloud",
        "permission: may not get deployments/scale.apps, nor patch deployments/scale.apps",
        "permission: may not create leases.coordination.k8s.io in namespace garden",
    ] {
        assert!(failed.iter().any(|row| row == missing), "{failed:#?}");
    }
    assert_eq!(
        rows(&said, "warn"),
        ["permission: may not create events, nor patch events"]
    );
    assert_eq!(said.status.code(), Some(1));
}
