//! Disks that hang: under the log the raft loop is stuck, under the store every read hangs.
//!
//! They need root and loop devices, so they run on request.

use std::time::Duration;

use kelpie_e2e::disk::Disk;
use kelpie_e2e::{Etcd, Setup};
use tokio::time::{Instant, sleep, timeout};

use super::stage::{PATIENCE, SLACK, beside, on_every_line, own_answer};

/// A write that hangs with the disk; only that it is under way counts.
async fn write(etcd: &Etcd) {
    let _ = timeout(Duration::from_millis(300), etcd.put("key", b"value")).await;
}

#[tokio::test]
#[ignore = "needs root and loop devices, takes 20 seconds"]
async fn a_stuck_raft_loop_is_named_after_ten_seconds_and_kills_only_on_request() {
    on_every_line(async |line| {
        let disk = Disk::new().unwrap();
        let setup = Setup::new(line).flag(&format!("--wal-dir={}/wal", disk.path().display()));
        let etcd = Etcd::start_with(&setup).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        let strict = beside(&etcd, &["--enable=livez/raft_loop"]).await;
        for kelpie in [&kelpie, &strict] {
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        }

        let frozen = disk.freeze().unwrap();
        let began = Instant::now();
        write(&etcd).await;
        let (mut unready, mut named, mut killed) = (None, None, None);
        while began.elapsed() < Duration::from_secs(20) && (named.is_none() || killed.is_none()) {
            let (ready, live, strictly) = tokio::join!(
                kelpie.get("/readyz"),
                kelpie.get("/livez"),
                strict.get("/livez")
            );
            let (ready, live, strictly) = (ready.unwrap(), live.unwrap(), strictly.unwrap());
            let now = began.elapsed();
            assert!(
                ready.took <= Duration::from_millis(900) + SLACK,
                "late: {ready:?}"
            );
            assert_eq!(live.status, 200, "after {now:?}: {}", live.body);
            if ready.status == 503 {
                unready.get_or_insert(now);
            }
            if ready.body.contains("[-]raft_loop failed: ") {
                named.get_or_insert(now);
            }
            if strictly.status == 503 {
                assert!(
                    strictly.body.contains("[-]raft_loop failed: "),
                    "{}",
                    strictly.body
                );
                killed.get_or_insert(now);
            }
            sleep(Duration::from_millis(200)).await;
        }
        let theirs = [
            own_answer(&etcd, "/livez", Duration::from_secs(2)).await,
            own_answer(&etcd, "/readyz", Duration::from_secs(2)).await,
        ];
        println!(
            "{line}, log on a disk that hangs: not ready after {unready:?}, raft loop named after \
             {named:?}, livez on request failed after {killed:?}; etcd's own livez and readyz: \
             {theirs:?}"
        );
        let ten = Duration::from_secs(10);
        assert!(unready.is_some_and(|after| after < ten), "{unready:?}");
        assert!(named.is_some_and(|after| after >= ten), "{named:?}");
        assert!(killed.is_some_and(|after| after >= ten), "{killed:?}");
        drop(frozen);
        for kelpie in [&kelpie, &strict] {
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
            kelpie.until("/livez", 200, PATIENCE).await.unwrap();
        }
        // Before its disk goes.
        drop(etcd);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs root and loop devices"]
async fn a_store_that_hangs_without_a_defragmentation_fails_livez_by_its_deadline() {
    on_every_line(async |line| {
        let disk = Disk::new().unwrap();
        let wal = tempfile::tempdir().unwrap();
        let setup = Setup::new(line)
            .flag(&format!("--data-dir={}/data", disk.path().display()))
            .flag(&format!("--wal-dir={}/wal", wal.path().display()));
        let etcd = Etcd::start_with(&setup).await.unwrap();
        let kelpie = beside(&etcd, &["--livez-deadline=500ms"]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();

        let frozen = disk.freeze().unwrap();
        write(&etcd).await;
        let live = kelpie.until("/livez", 503, PATIENCE).await.unwrap();
        assert!(
            live.took <= Duration::from_millis(500) + SLACK,
            "late: {live:?}"
        );
        let ready = kelpie.get("/readyz").await.unwrap();
        assert!(
            ready.took <= Duration::from_millis(900) + SLACK,
            "late: {ready:?}"
        );
        let theirs = own_answer(&etcd, "/livez", PATIENCE / 2).await;
        println!(
            "{line}, store on a disk that hangs: {:?}: {}; etcd's own livez: {theirs}",
            live.took,
            live.body.trim()
        );
        drop(frozen);
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        drop(etcd);
    })
    .await;
}
