//! Watches that hang while everything else works.

use std::time::Duration;

use kelpie_e2e::{EtcdMember, EtcdSetup};
use tokio::time::Instant;

use super::fixture::{SLACK, TIMEOUT, on_every_release, start_kelpie};

/// The place in etcd before the watch loop sends a response.
const SEND: &str = "beforeSendWatchResponse";

#[tokio::test]
async fn stuck_watch_loop_is_not_ready() {
    let etcd = EtcdMember::start_with(&EtcdSetup::with_failpoints())
        .await
        .unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    let without = start_kelpie(&etcd, &["--disable=watch"]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();

    etcd.delay(SEND, Duration::from_secs(12)).await.unwrap();
    let started = Instant::now();
    let stuck = kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
    println!("watch loop stuck: readyz 503 after {:?}", started.elapsed());
    assert!(
        stuck.took <= Duration::from_millis(900) + SLACK,
        "{stuck:?}"
    );
    assert!(
        stuck.body.contains("[-]watch failed: watch stuck"),
        "{stuck:?}"
    );
    for passing in ["serializable_read", "read_index", "raft_loop"] {
        let line = format!("[+]{passing} ok");
        assert!(stuck.body.contains(&line), "{stuck:?}");
    }
    assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
    // Nothing else sees it.
    assert_eq!(without.get("/readyz").await.unwrap().status, 200);

    etcd.end_delay(SEND).await.unwrap();
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn watch_check_writes_nothing() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie
            .until_status("/readyz/watch", 200, TIMEOUT)
            .await
            .unwrap();
        let position = async || {
            let status = etcd.status().await.unwrap();
            let revision = status["header"]["revision"].clone();
            (status["raftIndex"].clone(), revision)
        };
        let before = position().await;
        for _ in 0..20 {
            let reply = kelpie.get("/readyz/watch").await.unwrap();
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        assert_eq!(position().await, before);
        // One watch stays open; ended ones would count as failed calls.
        let streams = etcd.metric("etcd_debugging_mvcc_watch_stream_total").await;
        assert!((streams.unwrap() - 1.0).abs() < 0.1);
    })
    .await;
}
