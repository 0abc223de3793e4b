//! A dry run decides and reports, but never writes to the seed.

use kelpie_e2e::landscape::{ProberConfigFile, ShootCluster, Timings, rest};
use kelpie_e2e::poll;
use serde_json::Value;

use super::fixture::*;

#[tokio::test]
async fn dry_run_reports_and_writes_nothing() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    until_pods_ready(&fixture, &shoot).await;
    let before = versions(&fixture, &shoot).await;
    // A trial next to a running prober would use that prober's flags.
    let flags = ["--dry-run", "--enable-leader-election=true"];
    let prober = fixture
        .prober(&ProberConfigFile::gardener_targets(timings), &flags)
        .await;
    until_healthy(&prober, &shoot).await;

    kubelets.partition(1.0).await;
    prober
        .until_verdict(&shoot.name, "fence", TIMEOUT)
        .await
        .unwrap();
    let logged = prober.until_line(&["verdict=Fence", "acts=false"], TIMEOUT);
    logged.await.unwrap();
    until_rounds(&prober, 3.0).await;
    kubelets.heal().await;
    until_healthy(&prober, &shoot).await;

    assert_eq!(versions(&fixture, &shoot).await, before);
    assert_untouched(&shoot).await;
    let page = prober.kelpie.get("/debug/state").await.unwrap().body;
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(
        (&page["dryRun"], &page["leads"]),
        (&true.into(), &false.into())
    );
    for namespace in ["default", &shoot.name, "garden"] {
        let events = fixture.seed.events(namespace).await.unwrap();
        let ours = |event: &&Value| event["source"]["component"] == "kelpie-prober";
        assert_eq!(events.iter().find(ours), None);
    }
    let lease = rest::get_opt(&fixture.seed.client, LEADER_LEASE)
        .await
        .unwrap();
    assert_eq!(lease, None, "a dry run must not hold the Lease");
}

/// Returns the resource versions of every object that a prober could write.
async fn versions(fixture: &Fixture, shoot: &ShootCluster) -> Vec<String> {
    let name = &shoot.name;
    let mut versions = Vec::new();
    for path in [
        format!("/apis/apps/v1/namespaces/{name}/deployments/{KCM}"),
        format!("/apis/apps/v1/namespaces/{name}/deployments/{MCM}"),
        format!("/apis/apps/v1/namespaces/{name}/deployments/{CA}"),
        format!("/apis/extensions.gardener.cloud/v1alpha1/clusters/{name}"),
        format!("/api/v1/namespaces/{name}/secrets/dwd-internal"),
        format!("/api/v1/namespaces/{name}"),
    ] {
        let object = rest::get(&fixture.seed.client, &path).await.unwrap();
        versions.push(object["metadata"]["resourceVersion"].to_string());
    }
    versions
}

async fn until_pods_ready(fixture: &Fixture, shoot: &ShootCluster) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", shoot.name);
    let all_ready = poll::until("ready pods", TIMEOUT, async || {
        let list = rest::get(&fixture.seed.client, &path).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ready = |item: &Value| item["status"]["readyReplicas"] == item["spec"]["replicas"];
        Ok((items.len() == 3 && items.iter().all(ready)).then_some(()))
    });
    all_ready.await.unwrap();
}
