//! Deciding without acting.

use kelpie_e2e::landscape::{Kubelets, Pace, ProberConfig, Shoot, rest};
use kelpie_e2e::poll;
use serde_json::Value;

use super::stage::*;

#[tokio::test]
async fn a_dry_run_decides_and_reports_everything_and_writes_nothing() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    until_pods_are_settled(&stage, &shoot).await;
    let before = versions(&stage, &shoot).await;
    // As somebody would try it beside what runs: with the flags that are in use.
    let flags = ["--dry-run", "--enable-leader-election=true"];
    let prober = stage.prober(&ProberConfig::shipped(pace), &flags).await;
    until_well(&prober, &shoot).await;

    kubelets.cut(1.0).await;
    prober
        .until_verdict(&shoot.name, "fence", PATIENCE)
        .await
        .unwrap();
    let told = prober.until_line(&["verdict=Fence", "acts=false"], PATIENCE);
    told.await.unwrap();
    until_rounds(&prober, 3.0).await;
    kubelets.heal().await;
    until_well(&prober, &shoot).await;

    assert_eq!(versions(&stage, &shoot).await, before);
    assert_untouched(&shoot).await;
    let page = prober.kelpie.get("/debug/state").await.unwrap().body;
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(
        (&page["dryRun"], &page["leads"]),
        (&true.into(), &false.into())
    );
    for namespace in ["default", &shoot.name, "garden"] {
        let events = stage.seed.events(namespace).await.unwrap();
        let ours = |event: &&Value| event["source"]["component"] == "kelpie-prober";
        assert_eq!(events.iter().find(ours), None);
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-prober-leader-election";
    let lease = rest::find(&stage.seed.client, lease).await.unwrap();
    assert_eq!(lease, None, "who does not act must not keep others from it");
}

/// The versions of all that a prober could write.
async fn versions(stage: &Stage, shoot: &Shoot) -> Vec<String> {
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
        let object = rest::read(&stage.seed.client, &path).await.unwrap();
        versions.push(object["metadata"]["resourceVersion"].to_string());
    }
    versions
}

async fn until_pods_are_settled(stage: &Stage, shoot: &Shoot) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", shoot.name);
    let settled = poll::until("ready pods", PATIENCE, async || {
        let list = rest::read(&stage.seed.client, &path).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ready = |item: &Value| item["status"]["readyReplicas"] == item["spec"]["replicas"];
        Ok((items.len() == 3 && items.iter().all(ready)).then_some(()))
    });
    settled.await.unwrap();
}
