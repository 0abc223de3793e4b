//! A raft loop that hangs, in a real etcd and without root: livez reports the stuck member alone.

use std::time::Duration;

use kelpie_e2e::{EtcdCluster, EtcdMember, EtcdSetup, Kelpie};
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{TIMEOUT, start_kelpie};

/// The place in etcd before it writes entries to its log.
const SAVE: &str = "raftBeforeSave";

/// The flags that enable the check in clusters of several members.
const OPT_IN: [&str; 2] = ["--enable=livez/raft_loop", "--election-timeout=1s"];

/// The raft loop must hang for this long before livez fails.
const THRESHOLD: Duration = Duration::from_secs(10);

/// Long enough for the threshold, even if a probe is late.
const HANG: Duration = Duration::from_secs(20);

async fn start_write(etcd: &EtcdMember) {
    let _ = timeout(Duration::from_millis(300), etcd.put("key", b"value")).await;
}

async fn until_ready(kelpies: &[Kelpie]) {
    for kelpie in kelpies {
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    }
}

#[tokio::test]
async fn single_member_is_not_live_by_default() {
    let etcd = EtcdMember::start_with(&EtcdSetup::with_failpoints())
        .await
        .unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    let without = start_kelpie(&etcd, &["--disable=livez/raft_loop"]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();

    etcd.delay(SAVE, HANG).await.unwrap();
    let started = Instant::now();
    start_write(&etcd).await;
    let stuck = kelpie.until_status("/livez", 503, HANG).await.unwrap();
    let after = started.elapsed();
    assert!(stuck.body.contains("[-]raft_loop failed: "), "{stuck:?}");
    assert!(stuck.body.contains("[+]serializable_read ok"), "{stuck:?}");
    assert!(after >= THRESHOLD, "too early: {after:?}");
    let other = without.get("/livez").await.unwrap();
    assert_eq!(other.status, 200, "{other:?}");
    println!("single member, raft loop stuck: livez 503 after {after:?}");

    etcd.end_delay(SAVE).await.unwrap();
    kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn only_the_stuck_member_of_three_is_not_live() {
    let cluster = EtcdCluster::start(&EtcdSetup::with_failpoints(), 3)
        .await
        .unwrap();
    let stuck = cluster.leader().await.unwrap();
    let mut kelpies = Vec::new();
    for member in &cluster.members {
        kelpies.push(start_kelpie(member, &OPT_IN).await);
    }
    let by_default = start_kelpie(&cluster.members[stuck], &[]).await;
    until_ready(&kelpies).await;
    by_default
        .until_status("/readyz", 200, TIMEOUT)
        .await
        .unwrap();

    cluster.members[stuck].delay(SAVE, HANG).await.unwrap();
    let started = Instant::now();
    start_write(&cluster.members[stuck]).await;
    let mut failed = None;
    while failed.is_none() && started.elapsed() < HANG {
        for (index, kelpie) in kelpies.iter().enumerate() {
            let live = kelpie.get("/livez").await.unwrap();
            if index == stuck && live.status == 503 {
                assert!(live.body.contains("[-]raft_loop failed: "), "{live:?}");
                failed = Some(started.elapsed());
            } else {
                assert_eq!(live.status, 200, "member {index}: {live:?}");
            }
        }
        let live = by_default.get("/livez").await.unwrap();
        assert_eq!(live.status, 200, "without the flag: {live:?}");
        sleep(Duration::from_millis(200)).await;
    }
    println!("leader of three, raft loop stuck: livez of that member alone 503 after {failed:?}");
    assert!(failed.is_some_and(|after| after >= THRESHOLD), "{failed:?}");
    let other = &kelpies[(stuck + 1) % 3];
    other.until_status("/readyz", 200, TIMEOUT).await.unwrap();

    cluster.members[stuck].end_delay(SAVE).await.unwrap();
    kelpies[stuck]
        .until_status("/livez", 200, TIMEOUT)
        .await
        .unwrap();
}
