//! `kelpie check prober` with the generated RBAC files, on a real API server.

use std::fs;
use std::time::Duration;

use kelpie_e2e::{ControlPlane, KubeApiServer, get_raw, poll};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::cache;

use crate::fixture::{check_rows, run_check};

const PROBER: &str = "system:serviceaccount:garden:kelpie-prober";
const SECRET: &str = "shoot-access-dependency-watchdog-probe";

/// Starts a seed cluster with Gardener's custom resources and the generated RBAC of the prober.
async fn start_seed() -> ControlPlane {
    let control_plane = ControlPlane::start().await.unwrap();
    let definitions = [
        "clusters.extensions.gardener.cloud",
        "machines.machine.sapcloud.io",
    ];
    control_plane.api.install_crds(&definitions).await.unwrap();
    let kubectl = async |arguments: &[&str]| control_plane.api.kubectl(arguments).await.unwrap();
    kubectl(&["create", "namespace", "garden"]).await;
    kubectl(&["create", "namespace", "shoot--a"]).await;
    let rbac = cache::repository().join("deploy/rbac/prober-seed.yaml");
    kubectl(&["create", "--filename", rbac.to_str().unwrap()]).await;
    control_plane
}

async fn create(api: &KubeApiServer, object: &Value) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("object.json");
    fs::write(&file, object.to_string()).unwrap();
    let create = ["create", "--filename", file.to_str().unwrap()];
    api.kubectl(&create).await.unwrap();
}

#[tokio::test]
async fn generated_seed_rbac_is_exact() {
    let control_plane = start_seed().await;
    let api = &control_plane.api;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": "shoot--a"},
        "data": {"token": "c2VjcmV0"},
    });

    let empty = run_check(api, "prober", PROBER).await;
    assert_eq!(check_rows(&empty, "fail"), [""; 0]);
    assert_eq!(check_rows(&empty, "warn"), [""; 0]);
    assert!(empty.status.success(), "{empty:?}");

    create(api, &cluster()).await;
    create(api, &secret).await;
    let found = run_check(api, "prober", PROBER).await;
    let unusable = format!(
        "shoot--a: the kubeconfig in Secret {SECRET} cannot be used: it has no key `kubeconfig`"
    );
    assert_eq!(check_rows(&found, "fail"), [unusable]);
    assert_eq!(found.status.code(), Some(1));

    let client = api.client(&api.user(PROBER, &[]).unwrap()).await.unwrap();
    for (path, status) in [
        ("/api/v1/secrets", 403),
        ("/api/v1/namespaces/shoot--a/secrets/another", 403),
        ("/apis/apps/v1/statefulsets", 403),
        ("/apis/apps/v1/deployments", 403),
        (
            "/apis/apps/v1/deployments?fieldSelector=metadata.name%3Dkube-controller-manager",
            200,
        ),
        ("/api/v1/pods", 403),
        (
            "/api/v1/secrets?fieldSelector=metadata.name%3Dshoot-access-dependency-watchdog-probe",
            200,
        ),
    ] {
        let response = get_raw(&client, path, "application/json").await.unwrap();
        assert_eq!(response.status.as_u16(), status, "{path}");
    }
}

/// The Secret of a cluster with its kubeconfig.
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
async fn generated_shoot_rbac_is_sufficient() {
    let control_plane = start_seed().await;
    let shoot = KubeApiServer::start(&control_plane.etcd, "shoot")
        .await
        .unwrap();
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
    create(&control_plane.api, &cluster()).await;
    create(
        &control_plane.api,
        &secret(&shoot.kubeconfig(&prober.unwrap())),
    )
    .await;

    let denied = run_check(&control_plane.api, "prober", PROBER).await;
    let failed = check_rows(&denied, "fail");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("shoot--a: listing node leases: "),
        "{failed:?}"
    );

    let rbac = cache::repository().join("deploy/rbac/prober-shoot.yaml");
    let rbac = ["create", "--filename", rbac.to_str().unwrap()];
    shoot.kubectl(&rbac).await.unwrap();
    // The authorizer of the API server learns of new roles through a watch.
    let limit = Duration::from_secs(10);
    let counted = poll::until("the roles to take effect", limit, async || {
        let output = run_check(&control_plane.api, "prober", PROBER).await;
        Ok(output.status.success().then_some(output))
    });
    let ok = check_rows(&counted.await.unwrap(), "ok");
    assert!(
        ok.contains(&"shoot--a: 3 nodes, 3 leases".to_owned()),
        "{ok:?}"
    );

    drop(shoot);
    let gone = run_check(&control_plane.api, "prober", PROBER).await;
    let failed = check_rows(&gone, "fail");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("shoot--a: GET /version: "),
        "{failed:?}"
    );
}

#[tokio::test]
async fn missing_permissions_are_listed() {
    let control_plane = start_seed().await;
    let output = run_check(&control_plane.api, "prober", "nobody").await;
    let failed = check_rows(&output, "fail");
    for missing in [
        "permission: may not list clusters.extensions.gardener.cloud \
         or watch clusters.extensions.gardener.cloud",
        "permission: may not get deployments/scale.apps named kube-controller-manager \
         or patch deployments/scale.apps named kube-controller-manager",
        "permission: may not create leases.coordination.k8s.io in namespace garden",
    ] {
        assert!(failed.iter().any(|row| row == missing), "{failed:#?}");
    }
    assert_eq!(
        check_rows(&output, "warn"),
        [
            "permission: may not list machines.machine.sapcloud.io \
             or watch machines.machine.sapcloud.io",
            "permission: may not create events or patch events"
        ]
    );
    assert_eq!(output.status.code(), Some(1));
}
