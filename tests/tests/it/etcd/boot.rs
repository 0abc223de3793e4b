//! A member that waits for its peers: restarting it would keep quorum from ever forming.

use std::time::Duration;

use kelpie_e2e::{Cluster, Setup};
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, SLACK, beside, on_every_line};

#[tokio::test]
async fn the_first_of_three_members_is_live_and_not_ready_until_the_others_come() {
    on_every_line(async |line| {
        let mut cluster = Cluster::start_alone(&Setup::new(line), 3).await.unwrap();
        let first = &cluster.members[0];
        let metrics = format!("--metrics-url={}/metrics", first.metrics_url());
        let pid = format!("--pid={}", first.process().id());
        let deadline = "--livez-deadline=500ms";
        // Known to boot by its metrics, by its process, or taken for booting for some minutes.
        let watchers = [
            beside(first, &[deadline, &metrics]).await,
            beside(first, &[deadline, &pid]).await,
            beside(first, &[deadline]).await,
        ];
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            for (index, kelpie) in watchers.iter().enumerate() {
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
        for kelpie in &watchers {
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
            kelpie.until("/livez", 200, PATIENCE).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn silence_of_which_nothing_is_known_passes_only_for_the_grace() {
    let cluster = Cluster::start_alone(&Setup::new("etcd"), 3).await.unwrap();
    let flags = ["--livez-deadline=300ms", "--boot-grace=3s"];
    let kelpie = beside(&cluster.members[0], &flags).await;
    let first = kelpie.get("/livez").await.unwrap();
    assert_eq!(first.status, 200, "{}", first.body);
    kelpie.until("/livez", 503, PATIENCE).await.unwrap();
    let took = kelpie.started().elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_member_that_restarts_without_quorum_is_live() {
    let mut cluster = Cluster::start(&Setup::new("etcd"), 3).await.unwrap();
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
    let kelpie = beside(&cluster.members[0], &flags.each_ref().map(String::as_str)).await;
    kelpie.until("/livez", 503, PATIENCE).await.unwrap();
    cluster.members[0].relaunch().unwrap();
    kelpie.until("/livez", 200, PATIENCE).await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let live = kelpie.get("/livez").await.unwrap();
        assert_eq!(live.status, 200, "{}", live.body);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(kelpie.get("/readyz").await.unwrap().status, 503);
    cluster.members[1].relaunch().unwrap();
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
}
