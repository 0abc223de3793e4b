//! The backend of an admission webhook before Deployments is away: a fence is made by the scale
//! subresource, and its record waits on the leader Lease.

use kelpie_e2e::landscape::{LEASE_RECORDS, ProberConfigFile, Timings, rest};
use kelpie_e2e::poll;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::*;

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAME: &str = "high-availability-config";

#[tokio::test]
async fn fence_and_restore_without_the_webhook() {
    let fixture = Fixture::start().await;
    let (timings, client) = (Timings::QUICK, &fixture.seed.client);
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let prober = fixture.prober(&config, &ELECTION).await;
    until_healthy(&prober, &shoot).await;

    create_webhook(client).await;
    let refused = shoot.annotate(KCM, "example.org/test", &json!("")).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("failed calling webhook"), "{refused}");

    kubelets.partition(1.0).await;
    shoot
        .until_replicas([0, RESTORED[1], RESTORED[2]], TIMEOUT)
        .await
        .unwrap();
    assert!(!shoot.target(KCM).await.unwrap().marked);
    until_records(client, true).await;
    until_problem(&prober, &shoot, "its record waits on Lease garden/").await;
    kubelets.heal().await;
    shoot.until_replicas(RESTORED, TIMEOUT).await.unwrap();
    until_records(client, false).await;
    until_healthy(&prober, &shoot).await;

    // The second fence is made without the webhook, and its record moves when the webhook is gone.
    let start = Instant::now();
    kubelets.partition(1.0).await;
    shoot
        .until_replicas([0, RESTORED[1], RESTORED[2]], TIMEOUT)
        .await
        .unwrap();
    rest::delete(client, &format!("{WEBHOOKS}/{NAME}"))
        .await
        .unwrap();
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    until_records(client, false).await;
    let moved = shoot.target(KCM).await.unwrap();
    assert!(moved.marked && moved.replicas == 0, "{moved:?}");
    assert_eq!(moved.recorded.as_deref(), Some("3"));
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    let scaled = fixture.until_scaled(&shoot, KCM, start, 0).await;
    assert!(!scaled.marked, "the record was kept elsewhere: {scaled:?}");
}

/// Creates a webhook before writes to Deployments whose backend is away.
async fn create_webhook(client: &Client) {
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": NAME },
        "webhooks": [{
            "name": "high-availability-config.resources.gardener.cloud",
            "clientConfig": { "url": "https://127.0.0.1:1/webhooks" },
            "rules": [{
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"],
            }],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }],
    });
    rest::create(client, WEBHOOKS, &webhook).await.unwrap();
    // The API server learns about its webhooks with a delay.
    let path = "/apis/apps/v1/namespaces/default/deployments?dryRun=All";
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "test" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "a", "image": "a" }] },
            },
        },
    });
    let refused = poll::until("the webhook", TIMEOUT, async || {
        let created = rest::create(client, path, &deployment).await;
        Ok(created.is_err().then_some(()))
    });
    refused.await.unwrap();
}

/// Waits until the leader Lease has records, or has none.
async fn until_records(client: &Client, has_records: bool) {
    let what = format!("records on the Lease: {has_records}");
    let done = poll::until(&what, TIMEOUT, async || {
        let lease: Value = rest::get(client, LEADER_LEASE).await?;
        let records = &lease["metadata"]["annotations"][LEASE_RECORDS];
        Ok((records.is_string() == has_records).then_some(()))
    });
    done.await.unwrap();
}
