//! Interrupted watches: no recovery is missed, and no pod is deleted twice.

use std::time::Duration;

use kelpie_e2e::landscape::{ProxyFault, TcpProxy, TestPod};
use kelpie_e2e::poll;
use tokio::time::sleep;

use super::fixture::*;

/// Configuration with windows that outlast the test.
fn config() -> String {
    CONFIG.replace("20s", "10m")
}

/// While the API server is down, one service recovers, a pod crashes in the open window of another,
/// and a third does not change. The new list shows all of it.
#[tokio::test]
async fn api_server_outage_loses_no_recovery() {
    let mut fixture = Fixture::start().await;
    let recovers = fixture.namespace_without_etcd("recovers").await;
    let open = fixture.namespace_without_etcd("open").await;
    let unchanged = fixture.namespace_without_etcd("unchanged").await;
    unchanged.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let weeder = fixture.weeder(&config().replace("10m", "4s"), &[]).await;
    until_no_window(&weeder, "unchanged").await;
    drop(weeder);

    // The windows of this weeder do not end during the test.
    let weeder = fixture.weeder(&config(), &[]).await;
    for namespace in [&recovers, &open] {
        namespace.create_pod(&TestPod::new("before")).await.unwrap();
    }
    open.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    open.until_live_pods(&[], TIMEOUT).await.unwrap();
    until_deletions(&weeder, 1.0).await;

    fixture.seed.control_plane.api.kill();
    weeder
        .kelpie
        .until_line(&["WARN", "watch on", "failed; retrying"], TIMEOUT)
        .await
        .unwrap();
    fixture.seed.control_plane.api.restart().await.unwrap();
    // Depending on the weeder's back-off this happens before or after it reconnects. Both must
    // work.
    recovers.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    open.create_pod(&TestPod::new("after")).await.unwrap();
    recovers.until_live_pods(&[], TIMEOUT).await.unwrap();
    open.until_live_pods(&[], TIMEOUT).await.unwrap();
    until_deletions(&weeder, 3.0).await;
    until_recoveries(&weeder, 2.0).await;
}

/// A service fails and recovers while the weeder is disconnected. The generation of its
/// EndpointSlice shows it.
#[tokio::test]
async fn unobserved_outage_is_found_in_next_list() {
    let mut fixture = Fixture::start().await;
    let flaps = fixture.namespace_without_etcd("flaps").await;
    let unchanged = fixture.namespace_without_etcd("unchanged").await;
    let proxy = TcpProxy::start(fixture.seed.control_plane.api.url())
        .await
        .unwrap();
    let weeder = fixture.weeder_through(&proxy, CONFIG, &[]).await;
    for namespace in [&flaps, &unchanged] {
        namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
        until_window(&weeder, &namespace.namespace).await;
    }
    for namespace in [&flaps, &unchanged] {
        until_no_window(&weeder, &namespace.namespace).await;
        namespace.create_pod(&TestPod::new("pod")).await.unwrap();
    }
    proxy.set_fault(ProxyFault::Reset);
    weeder
        .kelpie
        .until_line(&["WARN", "watch on", "failed; retrying"], TIMEOUT)
        .await
        .unwrap();
    flaps.restart_service(ETCD).await.unwrap();
    // A single change cannot hide an outage, so this is no recovery.
    unchanged
        .set_endpoints(ETCD, &[Some(true), Some(true)])
        .await
        .unwrap();
    // A restarted API server has no watch history, so the watch has to start with a list.
    fixture.seed.control_plane.api.restart().await.unwrap();
    proxy.set_fault(ProxyFault::None);
    flaps.until_live_pods(&[], TIMEOUT).await.unwrap();
    assert_eq!(unchanged.live_pods().await.unwrap().len(), 1);
    until_recoveries(&weeder, 3.0).await;
}

#[tokio::test]
async fn connection_faults_lose_no_recovery() {
    let fixture = Fixture::start().await;
    let url = fixture.seed.control_plane.api.url();
    let (cut, stalled, silent) = tokio::join!(
        TcpProxy::start(url),
        TcpProxy::start(url),
        TcpProxy::start(url),
    );
    tokio::join!(
        repeated_resets(&fixture, cut.unwrap()),
        half_open_connection(&fixture, stalled.unwrap()),
        only_bookmarks(&fixture, silent.unwrap()),
    );
}

/// Services recover and pods crash while connections are reset in the middle of a transfer.
async fn repeated_resets(fixture: &Fixture, proxy: TcpProxy) {
    const PODS: usize = 40;
    let namespace = fixture.namespace_without_etcd("cut").await;
    let weeder = fixture
        .weeder_through(&proxy, &config(), &["--namespace=cut"])
        .await;
    let crash = async {
        for number in 0..PODS {
            if number % 10 == 0 {
                namespace.restart_service(ETCD).await.unwrap();
            }
            let name = format!("pod-{number:02}");
            namespace.create_pod(&TestPod::new(&name)).await.unwrap();
        }
    };
    let cut = async {
        for _ in 0..15 {
            proxy.set_fault(ProxyFault::Reset);
            sleep(Duration::from_millis(20)).await;
            proxy.set_fault(ProxyFault::None);
            sleep(Duration::from_millis(150)).await;
        }
    };
    tokio::join!(crash, cut);
    namespace.until_live_pods(&[], 2 * TIMEOUT).await.unwrap();
    for number in 0..PODS {
        let pod = format!("namespace=\"cut\" service=\"etcd\" pod=\"pod-{number:02}\"");
        let acknowledged = weeder.kelpie.lines(&["pod deleted", &pod]);
        assert!(acknowledged.len() <= 1, "pod-{number:02} was deleted twice");
    }
}

/// A connection that stalls without an error is noticed within half a minute.
async fn half_open_connection(fixture: &Fixture, proxy: TcpProxy) {
    let namespace = fixture.namespace_without_etcd("stalled").await;
    namespace.create_pod(&TestPod::new("pod")).await.unwrap();
    let weeder = fixture
        .weeder_through(&proxy, &config(), &["--namespace=stalled"])
        .await;
    proxy.set_fault(ProxyFault::StallExisting);
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
    until_recoveries(&weeder, 1.0).await;
}

/// The watch is renewed several times while this service does not change and others do.
async fn only_bookmarks(fixture: &Fixture, proxy: TcpProxy) {
    let namespace = fixture.namespace_without_etcd("silent").await;
    namespace.create_pod(&TestPod::new("pod")).await.unwrap();
    let weeder = fixture
        .weeder_through(&proxy, &config(), &["--namespace=silent"])
        .await;
    let requests = "kelpie_weeder_seed_requests_total{code=\"200\"}";
    let before = weeder.kelpie.metric(requests).await.unwrap();
    let busy = fixture.namespace_without_etcd("busy").await;
    let renewed = poll::until("two renewals of the watch", 2 * TIMEOUT, async || {
        busy.restart_service(ETCD).await?;
        sleep(Duration::from_millis(500)).await;
        let now = weeder.kelpie.metric(requests).await?;
        Ok((now >= before + 1.5).then_some(()))
    });
    renewed.await.unwrap();
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
    until_recoveries(&weeder, 1.0).await;
}
