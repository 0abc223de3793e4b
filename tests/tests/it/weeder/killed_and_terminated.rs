//! The end of the process: SIGKILL at any instant, and SIGTERM.

use std::time::Duration;

use kelpie_e2e::landscape::{ProxyFault, TcpProxy, TestPod, WeederProcess};
use kelpie_e2e::poll;
use tokio::time::sleep;

use super::fixture::*;

/// After a kill the next process opens one new window for each ready service, and no others.
#[tokio::test]
async fn restart_after_kill_opens_one_window_per_service() {
    const PODS: usize = 60;
    let fixture = Fixture::start().await;
    let ready = fixture.namespace_without_etcd("ready").await;
    let not_ready = fixture.namespace_without_etcd("not-ready").await;
    let config = CONFIG.replace("20s", "10s");
    let mut uids = Vec::new();
    for number in 0..PODS {
        let pod = TestPod::new(&format!("pod-{number:02}"));
        uids.push(ready.create_pod(&pod).await.unwrap());
    }
    not_ready.create_pod(&TestPod::new("pod")).await.unwrap();
    let proxy = TcpProxy::start(fixture.seed.control_plane.api.url())
        .await
        .unwrap();
    proxy.set_fault(ProxyFault::Delay(Duration::from_millis(30)));
    ready.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let mut run_time = Duration::from_millis(5);
    let mut kills = 0;
    // The kills cover the time from the first request to the last deletion.
    while kills < 8 && !ready.live_pods().await.unwrap().is_empty() {
        let admin = fixture.seed.control_plane.api.admin();
        let kubeconfig = fixture
            .seed
            .kubeconfig_file_via_proxy(&proxy, &admin)
            .unwrap();
        let weeder = WeederProcess::start(&kubeconfig, &config, &[]);
        let weeder = weeder.await.unwrap();
        sleep(run_time).await;
        drop(weeder);
        kills += 1;
        run_time *= 2;
    }
    let left = ready.live_pods().await.unwrap().len();
    println!("{kills} kills, {left} of {PODS} pods left");
    proxy.set_fault(ProxyFault::None);

    let weeder = fixture.weeder(&config, &[]).await;
    ready.until_live_pods(&[], TIMEOUT).await.unwrap();
    let opened = weeder.kelpie.lines(&["window opened"]);
    assert_eq!(opened.len(), 1, "{opened:?}");
    until_recoveries(&weeder, 0.0).await;
    assert_eq!(
        not_ready.live_pods().await.unwrap().len(),
        1,
        "its service is not ready"
    );
    // There is no second window: a pod that crashes later is left alone.
    until_no_window(&weeder, "ready").await;
    ready.create_pod(&TestPod::new("late")).await.unwrap();
    not_ready.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    not_ready.until_live_pods(&[], TIMEOUT).await.unwrap();
    assert_eq!(ready.live_pods().await.unwrap().len(), 1);
}

#[tokio::test]
async fn sigterm_finishes_started_deletions_only() {
    const PODS: usize = 100;
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    for number in 0..PODS {
        let pod = TestPod::new(&format!("pod-{number:03}"));
        namespace.create_pod(&pod).await.unwrap();
    }
    let mut weeder = fixture.weeder(CONFIG, &[]).await;
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let first = poll::until("the first deletions", TIMEOUT, async || {
        Ok((namespace.live_pods().await?.len() < PODS).then_some(()))
    });
    first.await.unwrap();
    weeder.kelpie.process().signal("TERM").unwrap();
    let exit = weeder.kelpie.wait_for_exit(TIMEOUT).await.unwrap();
    assert_eq!(exit.code, Some(0));
    let log = weeder.kelpie.log();
    let (before, after) = log.split_once("SIGTERM").unwrap();
    let started = before.matches(" deleting pod: ").count();
    let started_late = after.matches(" deleting pod: ").count();
    assert!(
        started_late <= 1,
        "one may have been about to start: {after}"
    );
    let acknowledged = log.matches(" pod deleted ").count();
    println!(
        "{started} deletions started before SIGTERM, {started_late} after it, \
         {acknowledged} acknowledged"
    );
    // A deletion may have succeeded although its response did not arrive before the process exited.
    let gone = PODS - namespace.live_pods().await.unwrap().len();
    assert!(
        (acknowledged..=started + started_late).contains(&gone),
        "{gone} pods are gone"
    );
}
