//! A rotated kubeconfig Secret takes effect without a restart.

use kelpie_e2e::Credentials;
use kelpie_e2e::landscape::{ProberProcess, ShootCluster, Timings, rest};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::*;

#[tokio::test]
async fn rotated_secret_replaces_revoked_token() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let old = create_token(&fixture, "old").await;
    let new = create_token(&fixture, "new").await;
    let api = &fixture.seed.control_plane.api;
    let kubeconfig = |token: &str| api.kubeconfig(&Credentials::Token(token.to_owned()));
    let shoot = fixture
        .shoot_with_kubeconfig("rotated", &kubeconfig(&old), &kubelets)
        .await;
    let prober = fixture.gardener_prober(timings).await;
    until_healthy(&prober, &shoot).await;

    let account = "/api/v1/namespaces/default/serviceaccounts/old";
    rest::delete(&fixture.seed.client, account).await.unwrap();
    until_problem(&prober, &shoot, "401").await;
    shoot.rotate_kubeconfig(&kubeconfig(&new)).await.unwrap();
    let rotated = Instant::now();
    until_no_problems(&prober, &shoot).await;
    println!("healthy {:?} after the rotation", rotated.elapsed());

    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    for token in [old, new] {
        assert!(!prober.log().contains(&token), "a token in the log");
    }
}

async fn until_no_problems(prober: &ProberProcess, shoot: &ShootCluster) {
    let is_clear = |state: &Value| state["problems"].as_array().is_some_and(Vec::is_empty);
    let found = prober.until_state("no problems", &shoot.name, TIMEOUT, is_clear);
    found.await.unwrap();
}

/// Creates a service account with admin rights, and returns a token for it.
async fn create_token(fixture: &Fixture, name: &str) -> String {
    let client = &fixture.seed.client;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": name } });
    rest::create(client, accounts, &account).await.unwrap();
    let binding = json!({
        "metadata": { "name": format!("account-{name}") },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    rest::create(client, bindings, &binding).await.unwrap();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": 3600 },
    });
    let path = format!("{accounts}/{name}/token");
    let granted = rest::create(client, &path, &request).await.unwrap();
    granted["status"]["token"].as_str().unwrap().to_owned()
}
