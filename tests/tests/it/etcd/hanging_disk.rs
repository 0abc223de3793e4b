//! Hanging disks: under the log they stop the raft loop, under the store they stop every read.
//!
//! These tests need root and loop devices, so they run on request.

use std::time::Duration;

use kelpie_e2e::disk::LoopDisk;
use kelpie_e2e::{EtcdMember, EtcdSetup};
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{SLACK, TIMEOUT, etcd_response, on_every_release, start_kelpie};

/// Starts a write, which hangs with the disk.
async fn start_write(etcd: &EtcdMember) {
    let _ = timeout(Duration::from_millis(300), etcd.put("key", b"value")).await;
}

#[tokio::test]
#[ignore = "needs root and loop devices, takes 20 seconds"]
async fn hanging_log_disk_is_a_stuck_raft_loop() {
    on_every_release(async |release| {
        let disk = LoopDisk::new().unwrap();
        let wal = format!("--wal-dir={}/wal", disk.path().display());
        let setup = EtcdSetup::new(release).flag(&wal);
        let etcd = EtcdMember::start_with(&setup).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        let strict = start_kelpie(
            &etcd,
            &["--enable=livez/raft_loop", "--election-timeout=1s"],
        )
        .await;
        for kelpie in [&kelpie, &strict] {
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        }

        let frozen = disk.freeze().unwrap();
        let started = Instant::now();
        start_write(&etcd).await;
        let (mut unready, mut reported, mut livez_failed) = (None, None, None);
        while started.elapsed() < Duration::from_secs(20)
            && (reported.is_none() || livez_failed.is_none())
        {
            let (ready, live, strict_live) = tokio::join!(
                kelpie.get("/readyz"),
                kelpie.get("/livez"),
                strict.get("/livez")
            );
            let (ready, live, strict_live) = (ready.unwrap(), live.unwrap(), strict_live.unwrap());
            let now = started.elapsed();
            assert!(
                ready.took <= Duration::from_millis(900) + SLACK,
                "late: {ready:?}"
            );
            assert_eq!(live.status, 200, "after {now:?}: {}", live.body);
            if ready.status == 503 {
                unready.get_or_insert(now);
            }
            if ready.body.contains("[-]raft_loop failed: ") {
                reported.get_or_insert(now);
            }
            if strict_live.status == 503 {
                assert!(
                    strict_live.body.contains("[-]raft_loop failed: "),
                    "{}",
                    strict_live.body
                );
                livez_failed.get_or_insert(now);
            }
            sleep(Duration::from_millis(200)).await;
        }
        let upstream = [
            etcd_response(&etcd, "/livez", Duration::from_secs(2)).await,
            etcd_response(&etcd, "/readyz", Duration::from_secs(2)).await,
        ];
        println!(
            "{release}, log on a disk that hangs: not ready after {unready:?}, raft loop reported \
             after {reported:?}, livez on request failed after {livez_failed:?}; etcd's own livez \
             and readyz: {upstream:?}"
        );
        let ten = Duration::from_secs(10);
        assert!(unready.is_some_and(|after| after < ten), "{unready:?}");
        assert!(reported.is_some_and(|after| after >= ten), "{reported:?}");
        assert!(
            livez_failed.is_some_and(|after| after >= ten),
            "{livez_failed:?}"
        );
        drop(frozen);
        for kelpie in [&kelpie, &strict] {
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
            kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
        }
        // etcd must end before its disk is removed.
        drop(etcd);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs root and loop devices"]
async fn hanging_store_disk_fails_livez() {
    on_every_release(async |release| {
        let disk = LoopDisk::new().unwrap();
        let wal = tempfile::tempdir().unwrap();
        let setup = EtcdSetup::new(release)
            .flag(&format!("--data-dir={}/data", disk.path().display()))
            .flag(&format!("--wal-dir={}/wal", wal.path().display()));
        let etcd = EtcdMember::start_with(&setup).await.unwrap();
        let kelpie = start_kelpie(&etcd, &["--livez-deadline=500ms"]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();

        let frozen = disk.freeze().unwrap();
        start_write(&etcd).await;
        let live = kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
        assert!(
            live.took <= Duration::from_millis(500) + SLACK,
            "late: {live:?}"
        );
        let ready = kelpie.get("/readyz").await.unwrap();
        assert!(
            ready.took <= Duration::from_millis(900) + SLACK,
            "late: {ready:?}"
        );
        let upstream = etcd_response(&etcd, "/livez", TIMEOUT / 2).await;
        println!(
            "{release}, store on a disk that hangs: {:?}: {}; etcd's own livez: {upstream}",
            live.took,
            live.body.trim()
        );
        drop(frozen);
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        drop(etcd);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs root and loop devices"]
async fn hanging_log_disk_stops_proposals() {
    on_every_release(async |release| {
        let disk = LoopDisk::new().unwrap();
        let wal = format!("--wal-dir={}/wal", disk.path().display());
        let setup = EtcdSetup::new(release).flag(&wal);
        let etcd = EtcdMember::start_with(&setup).await.unwrap();
        let kelpie = start_kelpie(&etcd, &["--enable=raft_propose"]).await;
        let target = "/readyz/raft_propose";
        kelpie.until_status(target, 200, TIMEOUT).await.unwrap();

        let frozen = disk.freeze().unwrap();
        let started = Instant::now();
        start_write(&etcd).await;
        let stuck = kelpie.until_status(target, 503, TIMEOUT).await.unwrap();
        let failed = started.elapsed();
        assert!(stuck.body.contains("write path stuck"), "{stuck:?}");
        assert!(failed <= Duration::from_secs(2) + SLACK, "{failed:?}");
        // Beyond etcd's own time limit of 7 s, so that some proposals end with its error.
        while started.elapsed() < Duration::from_secs(10) {
            let reply = kelpie.get(target).await.unwrap();
            assert_eq!(reply.status, 503, "{reply:?}");
            sleep(Duration::from_millis(500)).await;
        }
        drop(frozen);
        let healed = Instant::now();
        kelpie.until_status(target, 200, TIMEOUT).await.unwrap();
        let recovered = healed.elapsed();
        println!(
            "{release}, log on a disk that hangs: raft_propose failed after {failed:?}, recovered \
             after {recovered:?}"
        );
        assert!(recovered <= Duration::from_secs(2) + SLACK, "{recovered:?}");
        drop(etcd);
    })
    .await;
}
