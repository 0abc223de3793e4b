//! Connections to the API servers of clusters: network faults, and reuse between rounds.

use std::time::Duration;

use kelpie_e2e::landscape::{ProberConfigFile, ProxyFault, TcpProxy, Timings};
use kelpie_e2e::poll;

use super::fixture::*;

#[tokio::test]
async fn connection_faults_cause_no_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let api = &fixture.seed.control_plane.api;
    let access = api.user("probe", &[]).unwrap();
    let mut shoots = Vec::new();
    for name in ["reset", "stalled", "half-open", "slow"] {
        let proxy = TcpProxy::start(api.url()).await.unwrap();
        let kubeconfig = api.kubeconfig_for_url(proxy.url(), &access);
        let shoot = fixture
            .shoot_with_kubeconfig(name, &kubeconfig, &kubelets)
            .await;
        shoots.push((shoot, proxy));
    }
    let prober = fixture.gardener_prober(timings).await;
    for (shoot, _) in &shoots {
        until_healthy(&prober, shoot).await;
    }
    let find = |name: &str| shoots.iter().find(|(shoot, _)| shoot.name == name).unwrap();
    let (reset, on_reset) = find("reset");
    let (stalled, on_stalled) = find("stalled");
    let (half_open, on_half_open) = find("half-open");
    let (slow, on_slow) = find("slow");

    let connections = on_half_open.connections();
    on_reset.set_fault(ProxyFault::Reset);
    on_stalled.set_fault(ProxyFault::Stall);
    on_half_open.set_fault(ProxyFault::StallExisting);
    on_slow.set_fault(ProxyFault::Delay(Duration::from_millis(300)));
    for shoot in [reset, stalled] {
        until_rule(&prober, shoot, "apiServerNotHealthy").await;
        let state = prober.state(&shoot.name).await.unwrap().unwrap();
        let problems = state["problems"].to_string();
        assert!(problems.contains("API server"), "{problems}");
    }
    // The round succeeds on a fresh connection, so no problem is reported.
    let fresh = poll::until("a fresh connection", TIMEOUT, async || {
        Ok((on_half_open.connections() > connections).then_some(()))
    });
    fresh.await.unwrap();
    until_healthy(&prober, half_open).await;
    until_healthy(&prober, slow).await;
    for shoot in [half_open, slow] {
        let warnings = prober.lines(&["WARN", &format!("cluster=\"{}\"", shoot.name)]);
        assert!(warnings.is_empty(), "{warnings:#?}");
    }

    // The outage is longer than the grace period and still causes no fence.
    until_rule(&prober, stalled, "apiServerNotHealthy").await;
    tokio::time::sleep(timings.grace).await;
    on_reset.set_fault(ProxyFault::None);
    on_stalled.set_fault(ProxyFault::None);
    for (shoot, _) in &shoots {
        until_healthy(&prober, shoot).await;
        assert_untouched(shoot).await;
    }
    let fences = prober.lines(&["verdict=Fence"]);
    assert!(fences.is_empty(), "{fences:#?}");
}

#[tokio::test]
async fn connections_are_reused_unless_flag_forbids() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let api = &fixture.seed.control_plane.api;
    let access = api.user("probe", &[]).unwrap();
    let make = async |name: &str, flags: &[&str]| {
        let proxy = TcpProxy::start(api.url()).await.unwrap();
        let kubeconfig = api.kubeconfig_for_url(proxy.url(), &access);
        let shoot = fixture
            .shoot_with_kubeconfig(name, &kubeconfig, &kubelets)
            .await;
        let config = ProberConfigFile::gardener_targets(timings).only(name);
        let prober = fixture.prober(&config, flags).await;
        until_healthy(&prober, &shoot).await;
        (prober, proxy)
    };
    let (on_reused, reused) = make("reused", &[]).await;
    let (on_fresh, fresh) = make("fresh", &["--fresh-connections"]).await;

    let before = [&reused, &fresh].map(TcpProxy::connections);
    tokio::join!(until_rounds(&on_reused, 4.0), until_rounds(&on_fresh, 4.0));
    let after = [&reused, &fresh].map(TcpProxy::connections);
    assert!(after[1] >= before[1] + 4, "{before:?} -> {after:?}");
    // A slow response may cost a connection, but not one in every round.
    assert!(after[0] < before[0] + 4, "{before:?} -> {after:?}");
}
