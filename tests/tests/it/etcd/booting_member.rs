//! A member that waits for its peers. Restarting it would prevent a quorum forever.

use std::time::Duration;

use kelpie_e2e::{EtcdCluster, EtcdSetup};
use tokio::time::{Instant, sleep};

use super::fixture::{SLACK, TIMEOUT, on_every_release, start_kelpie};

#[tokio::test]
async fn first_member_is_live_until_others_join() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start_alone(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let first = &cluster.members[0];
        let metrics = format!("--metrics-url={}/metrics", first.metrics_url());
        let pid = format!("--pid={}", first.process().id());
        let deadline = "--livez-deadline=500ms";
        // The boot is known from the metrics, from the process, or assumed for some minutes.
        let probes = [
            start_kelpie(first, &[deadline, &metrics]).await,
            start_kelpie(first, &[deadline, &pid]).await,
            start_kelpie(first, &[deadline]).await,
        ];
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(4) {
            for (index, kelpie) in probes.iter().enumerate() {
                let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
                let (live, ready) = (live.unwrap(), ready.unwrap());
                assert_eq!(live.status, 200, "{index}: {}", live.body);
                assert!(
                    live.took < Duration::from_millis(500) + SLACK,
                    "late: {live:?}"
                );
                assert_eq!(ready.status, 503, "{index}: {}", ready.body);
                assert!(
                    ready.took < Duration::from_millis(900) + SLACK,
                    "late: {ready:?}"
                );
            }
        }
        for other in [1, 2] {
            cluster.spawn(other).unwrap();
        }
        for kelpie in &probes {
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
            kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn unexplained_silence_passes_for_the_grace() {
    let cluster = EtcdCluster::start_alone(&EtcdSetup::new("etcd"), 3)
        .await
        .unwrap();
    let flags = ["--livez-deadline=300ms", "--boot-grace=3s"];
    let kelpie = start_kelpie(&cluster.members[0], &flags).await;
    let first = kelpie.get("/livez").await.unwrap();
    assert_eq!(first.status, 200, "{}", first.body);
    kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
    let took = kelpie.started().elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn member_restarted_without_quorum_is_live() {
    let mut cluster = EtcdCluster::start(&EtcdSetup::new("etcd"), 3)
        .await
        .unwrap();
    for member in &mut cluster.members {
        member.kill();
    }
    let flags = {
        let metrics = cluster.members[0].metrics_url();
        [
            "--livez-deadline=500ms".to_owned(),
            format!("--metrics-url={metrics}/metrics"),
        ]
    };
    let kelpie = start_kelpie(&cluster.members[0], &flags.each_ref().map(String::as_str)).await;
    kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
    cluster.members[0].relaunch().unwrap();
    kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        let live = kelpie.get("/livez").await.unwrap();
        assert_eq!(live.status, 200, "{}", live.body);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(kelpie.get("/readyz").await.unwrap().status, 503);
    cluster.members[1].relaunch().unwrap();
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}
