//! The external probe, which uses the same network path as the nodes.

use kelpie_e2e::landscape::{ProberConfigFile, ProxyFault, TcpProxy, Timings};

use super::fixture::*;

#[tokio::test]
async fn external_path_failure_fences_until_it_recovers() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let api = &fixture.seed.control_plane.api;
    let proxy = TcpProxy::start(api.url()).await.unwrap();
    let access = api.user("probe", &[]).unwrap();
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let kubeconfig = api.kubeconfig_for_url(proxy.url(), &access);
    shoot.add_secret("external", &kubeconfig).await.unwrap();
    // Without the Secret there is no external probe, and no verdict depends on it.
    let without_secret = fixture.shoot("without-secret", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings)
        .line("externalKubeConfigSecretName: external")
        .line("failureThreshold: 2");
    let prober = fixture.prober(&config, &[]).await;
    until_healthy(&prober, &shoot).await;

    proxy.set_fault(ProxyFault::Reset);
    until_rule(&prober, &shoot, "externalUnhealthy").await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    let failures = format!(
        r#"kelpie_prober_external_probe_failures_total{{cluster="{}"}}"#,
        shoot.name
    );
    assert!(prober.kelpie.metric(&failures).await.unwrap() > 1.5);
    let state = prober.state(&without_secret.name).await.unwrap().unwrap();
    assert!(state["problems"].to_string().contains("external"));
    assert_untouched(&without_secret).await;

    proxy.set_fault(ProxyFault::None);
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_healthy(&prober, &shoot).await;
}
