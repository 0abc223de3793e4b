//! The second probe, over the path that the nodes use.

use kelpie_e2e::landscape::{Fault, Kubelets, Pace, ProberConfig, Proxy};

use super::stage::*;

#[tokio::test]
async fn an_external_path_that_is_down_fences_and_its_return_releases() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let api = &stage.seed.plane.api;
    let path = Proxy::start(api.url()).await.unwrap();
    let access = api.user("probe", &[]).unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let way = api.kubeconfig_at(path.url(), &access);
    shoot.add_secret("external", &way).await.unwrap();
    // Its Secret is missing: nothing is known about its path, and nothing rests on it.
    let without = stage.shoot("without", &kubelets).await;
    let config = ProberConfig::shipped(pace)
        .line("externalKubeConfigSecretName: external")
        .line("failureThreshold: 2");
    let prober = stage.prober(&config, &[]).await;
    until_well(&prober, &shoot).await;

    path.set(Fault::Reset);
    let fenced = prober.until_state("a fence", &shoot.name, PATIENCE, |state| {
        state["decision"]["reasons"]["rule"]["name"] == "externalUnhealthy"
    });
    fenced.await.unwrap();
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    let failures = format!(
        r#"kelpie_prober_external_probe_failures_total{{cluster="{}"}}"#,
        shoot.name
    );
    assert!(prober.kelpie.metric(&failures).await.unwrap() > 1.5);
    let state = prober.state(&without.name).await.unwrap().unwrap();
    assert!(state["troubles"].to_string().contains("external"));
    assert_untouched(&without).await;

    path.set(Fault::None);
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&prober, &shoot).await;
}
