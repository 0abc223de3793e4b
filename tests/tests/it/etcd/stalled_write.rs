//! A log that cannot be written, in a real etcd and without root. `hanging_disk` stalls a real
//! disk.

use std::time::Duration;

use kelpie_e2e::{EtcdMember, EtcdSetup};
use tokio::time::{Instant, timeout};

use super::fixture::{SLACK, TIMEOUT, start_kelpie};

/// The place in etcd before the log is flushed to the disk.
const SYNC: &str = "walBeforeSync";

#[tokio::test]
async fn stalled_log_is_seen_at_once() {
    let setup = EtcdSetup::with_failpoints().with_fsync();
    let etcd = EtcdMember::start_with(&setup).await.unwrap();
    let kelpie = start_kelpie(&etcd, &["--enable=raft_propose"]).await;
    let target = "/readyz/raft_propose";
    kelpie.until_status(target, 200, TIMEOUT).await.unwrap();

    // Longer than etcd's own time limit of 7 s, so that some proposals end with its error.
    etcd.delay(SYNC, Duration::from_secs(10)).await.unwrap();
    let started = Instant::now();
    let _ = timeout(Duration::from_millis(300), etcd.put("key", b"value")).await;
    let stuck = kelpie.until_status(target, 503, TIMEOUT).await.unwrap();
    let failed = started.elapsed();
    assert!(stuck.body.contains("write path stuck"), "{stuck:?}");
    assert!(failed <= Duration::from_secs(2) + SLACK, "{failed:?}");
    assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
    while started.elapsed() < Duration::from_secs(9) {
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!(reply.status, 503, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    etcd.end_delay(SYNC).await.unwrap();
    // A flush that has begun takes its time. Then the next write ends.
    let written = timeout(TIMEOUT, async {
        while etcd.put("key", b"value").await.is_err() {}
    });
    written.await.unwrap();
    let healed = Instant::now();
    kelpie.until_status(target, 200, TIMEOUT).await.unwrap();
    let recovered = healed.elapsed();
    println!("log stalled: raft_propose failed after {failed:?}, recovered after {recovered:?}");
    assert!(recovered <= Duration::from_secs(2) + SLACK, "{recovered:?}");
}

#[tokio::test]
async fn slow_store_fails_performance() {
    let etcd = EtcdMember::start_with(&EtcdSetup::with_failpoints())
        .await
        .unwrap();
    let limit = "--max-backend-commit=100ms";
    let kelpie = start_kelpie(&etcd, &["--enable=performance", limit]).await;
    let target = "/readyz/performance";
    kelpie.until_status(target, 200, TIMEOUT).await.unwrap();
    etcd.delay("beforeCommit", Duration::from_millis(300))
        .await
        .unwrap();
    let writing = async {
        loop {
            // A slow write is what the test is about.
            let _ = etcd.put("key", b"value").await;
        }
    };
    let slow = tokio::select! {
        slow = kelpie.until_status(target, 503, TIMEOUT * 2) => slow.unwrap(),
        () = writing => unreachable!("it never ends"),
    };
    assert!(
        slow.body.contains("a commit of the store takes"),
        "{slow:?}"
    );
    assert!(slow.body.contains("(limit 100ms)"), "{slow:?}");
}
