//! Clusters that the sources beside Gardener find, on a real API server.

use kelpie_e2e::landscape::{ProberConfigFile, ProberProcess, Timings, grant_guard_rules, rest};
use kelpie_e2e::poll;
use kube::Client;
use serde_json::{Value, json};

use super::fixture::{Fixture, TIMEOUT};

const GROUP: &str = "cluster.x-k8s.io";

/// Defines a kind of Cluster API with any fields, in one version.
async fn define(client: &Client, kind: &str, version: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema } }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    rest::create(client, path, &definition).await.unwrap();
}

/// Creates an object as soon as its kind is served.
async fn create(client: &Client, path: &str, object: &Value) {
    let created = poll::until("the kind to be served", TIMEOUT, async || {
        Ok(rest::create(client, path, object).await.ok())
    });
    created.await.unwrap();
}

/// Creates a cluster with the Secret that Cluster API would create for it.
async fn create_cluster(fixture: &Fixture, version: &str, name: &str, spec: Value) {
    let client = &fixture.seed.client;
    let cluster = json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Cluster",
        "metadata": { "name": name },
        "spec": spec,
        "status": match version {
            "v1beta2" => json!({ "initialization": { "controlPlaneInitialized": true } }),
            _ => json!({ "conditions": [{ "type": "ControlPlaneInitialized", "status": "True" }] }),
        },
    });
    let path = format!("/apis/{GROUP}/{version}/namespaces/fleet/clusters");
    create(client, &path, &cluster).await;
    let labels = json!({ "cluster.x-k8s.io/cluster-name": name });
    let secret = secret(&format!("{name}-kubeconfig"), &labels, "value", fixture);
    create(client, "/api/v1/namespaces/fleet/secrets", &secret).await;
}

fn secret(name: &str, labels: &Value, key: &str, fixture: &Fixture) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels },
        "stringData": { key: fixture.kubeconfig },
    })
}

async fn start() -> Fixture {
    let fixture = Fixture::start().await;
    let client = &fixture.seed.client;
    fixture.seed.create_namespace("fleet").await.unwrap();
    grant_guard_rules(client, "probe").await.unwrap();
    fixture
}

fn config(source: &str) -> ProberConfigFile {
    ProberConfigFile::new(Timings::QUICK, Vec::new())
        .line("guard: {}")
        .line(&format!("source: {source}"))
}

/// Waits until the guard of a cluster is armed. Returns the state of all clusters.
async fn until_armed(prober: &ProberProcess, cluster: &str) -> Value {
    let armed = poll::until("an armed guard", TIMEOUT, async || {
        let state = prober.kelpie.get("/debug/state").await?.body;
        let state: Value = serde_json::from_str(&state)?;
        let is_armed = state["clusters"][cluster]["guard"]["state"] == "armed";
        Ok(is_armed.then_some(state))
    });
    armed.await.unwrap()
}

#[tokio::test]
async fn cluster_api_clusters_are_guarded() {
    for version in ["v1beta1", "v1beta2"] {
        let fixture = start().await;
        let client = &fixture.seed.client;
        let _kubelets = fixture.kubelets(3, Timings::QUICK).await;
        for kind in ["Cluster", "Machine"] {
            define(client, kind, version).await;
        }
        create_cluster(&fixture, version, "one", json!({})).await;
        create_cluster(&fixture, version, "paused", json!({ "paused": true })).await;
        let prober = fixture.prober(&config("{clusterAPI: {}}"), &[]).await;
        let state = until_armed(&prober, "fleet/one").await;
        let clusters = state["clusters"].as_object().unwrap();
        assert_eq!(clusters.len(), 1, "{version}: {clusters:?}");
    }
}

#[tokio::test]
async fn labelled_secrets_are_guarded() {
    let fixture = start().await;
    let client = &fixture.seed.client;
    let _kubelets = fixture.kubelets(3, Timings::QUICK).await;
    let labels = json!({ "kelpie.dev/probe": "true" });
    for (name, labels) in [("one", &labels), ("other", &json!({}))] {
        let secret = secret(name, labels, "config", &fixture);
        create(client, "/api/v1/namespaces/fleet/secrets", &secret).await;
    }
    let source =
        "{secrets: {labelSelector: {matchLabels: {kelpie.dev/probe: 'true'}}, key: config}}";
    let prober = fixture.prober(&config(source), &[]).await;
    let state = until_armed(&prober, "fleet/one").await;
    assert_eq!(state["clusters"].as_object().unwrap().len(), 1);
}
