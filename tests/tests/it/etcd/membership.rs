//! Members that join, catch up and leave.

use std::time::Duration;

use kelpie_e2e::{EtcdCluster, EtcdMember, EtcdSetup, poll};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::fixture::{
    TIMEOUT, etcd_response, exclusive, on_every_release, on_releases, start_kelpie,
};

#[tokio::test]
async fn learner_is_ready_after_promotion() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 1)
            .await
            .unwrap();
        let learner = cluster.add_learner().await.unwrap();
        let kelpie = start_kelpie(learner, &[]).await;
        let ready = kelpie
            .until_status("/readyz/non_learner", 503, TIMEOUT)
            .await
            .unwrap();
        assert!(
            ready.body.starts_with("[-]non_learner failed: "),
            "{}",
            ready.body
        );
        for target in [
            "/livez",
            "/readyz/serializable_read",
            "/readyz/read_index",
            "/readyz/data_corruption",
            "/readyz?exclude=non_learner",
        ] {
            let reply = kelpie.get(target).await.unwrap();
            assert_eq!(reply.status, 200, "{target}: {}", reply.body);
        }
        assert_eq!(kelpie.get("/readyz").await.unwrap().status, 503);
        cluster.promote(1).await.unwrap();
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn replaced_member_becomes_ready() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let follower = cluster.follower().await.unwrap();
        let kelpie = start_kelpie(&cluster.members[follower], &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        cluster.replace(follower).await.unwrap();
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lost_leader_fails_readyz_briefly() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let leader = cluster.leader().await.unwrap();
        let kelpie = start_kelpie(&cluster.members[(leader + 1) % 3], &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        cluster.members[leader].kill();
        let gone = Instant::now();
        let mut last_failure = None;
        while gone.elapsed() < Duration::from_secs(5) {
            let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
            assert_eq!(live.unwrap().status, 200);
            if ready.unwrap().status != 200 {
                last_failure = Some(gone.elapsed());
            }
            sleep(Duration::from_millis(100)).await;
        }
        println!(
            "{release}, leader killed: a follower's readyz failed last after {last_failure:?}"
        );
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    })
    .await;
}

/// Returns the number of entries that a member has applied.
async fn applied(member: &EtcdMember) -> f64 {
    let applied = member.metric("etcd_server_proposals_applied_total").await;
    applied.unwrap()
}

#[tokio::test]
async fn slow_follower_that_advances_is_ready() {
    let _exclusive = exclusive().await;
    on_every_release(async |release| {
        let cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let leader = cluster.leader().await.unwrap();
        let follower = cluster.follower().await.unwrap();
        let slow = &cluster.members[follower];
        let kelpie = start_kelpie(slow, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();

        slow.pause().await.unwrap();
        cluster.members[leader].fill(100, 1_000_000).await.unwrap();
        // Now it catches up, two entries at a time.
        let resumed = Instant::now();
        let done = watch::Sender::new(false);
        let goal = applied(&cluster.members[leader]).await - 5.0;
        let catch_up_slowly = async {
            let mut have = 0.0;
            while have < goal {
                slow.resume().unwrap();
                have = poll::until("two entries more", TIMEOUT, async || {
                    let now = applied(slow).await;
                    Ok((now >= goal || now >= have + 2.0).then_some(now))
                })
                .await
                .unwrap();
                slow.pause().await.unwrap();
                sleep(Duration::from_millis(150)).await;
            }
            slow.resume().unwrap();
            done.send_replace(true);
        };
        let probe = async {
            let (mut first, mut excused, mut refused) = (None, 0, Vec::new());
            while !*done.borrow() {
                let ready = kelpie.get("/readyz/read_index").await.unwrap();
                match (ready.status, first) {
                    (200, _) => {
                        first.get_or_insert(resumed.elapsed());
                        excused += usize::from(!*done.borrow());
                    }
                    // It was stopped, so its progress is not known at once.
                    (_, None) => assert!(resumed.elapsed() < TIMEOUT / 2, "{}", ready.body),
                    (_, Some(_)) => refused.push(ready.body),
                }
                assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
            }
            (first, excused, refused)
        };
        let upstream = etcd_response(slow, "/readyz", TIMEOUT);
        let ((), (first, excused, refused), upstream) =
            tokio::join!(catch_up_slowly, probe, upstream);
        println!(
            "{release}: a follower caught up in {:?}; ready after {first:?}, {excused} probes were \
             200 before; etcd's own readyz: {upstream}",
            resumed.elapsed()
        );
        assert!(excused > 0, "never ready while it was behind");
        // On a busy machine, a member that is stopped most of the time may miss a status call.
        assert!(
            refused.len() * 4 <= excused,
            "not ready any more: {refused:?}"
        );
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn follower_restored_by_snapshot_passes_livez() {
    let _exclusive = exclusive().await;
    // 3.4 always keeps 5,000 entries and would send those instead of a snapshot. 3.6 and 3.7 drop
    // entries a hundred at a time.
    on_releases(&["etcd-3.5", "etcd-3.6", "etcd-3.7"], async |release| {
        let keep = match release {
            "etcd-3.5" => "--experimental-snapshot-catchup-entries=10",
            _ => "--snapshot-catchup-entries=10",
        };
        let setup = EtcdSetup::new(release)
            .flag("--snapshot-count=50")
            .flag(keep);
        let mut cluster = EtcdCluster::start(&setup, 3).await.unwrap();
        let leader = cluster.leader().await.unwrap();
        let follower = cluster.follower().await.unwrap();
        let flags = [
            "--enable=livez/raft_loop",
            "--election-timeout=1s",
            "--livez-deadline=2s",
        ];
        let kelpie = start_kelpie(&cluster.members[follower], &flags).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        cluster.members[follower].kill();
        cluster.members[leader].fill(250, 300_000).await.unwrap();
        kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
        cluster.members[follower].relaunch().unwrap();
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();

        let started = Instant::now();
        let mut probes = 0;
        while started.elapsed() < Duration::from_secs(4) {
            for target in ["/livez", "/readyz/raft_loop"] {
                let reply = kelpie.get(target).await.unwrap();
                let after = started.elapsed();
                assert_eq!(
                    reply.status, 200,
                    "{target} after {after:?}: {}",
                    reply.body
                );
            }
            probes += 1;
            sleep(Duration::from_millis(20)).await;
        }
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        let metrics = cluster.members[follower].metrics().await.unwrap();
        let received = metrics.lines().any(|line| {
            line.starts_with("etcd_network_snapshot_receive_success{") && !line.ends_with(" 0")
        });
        assert!(
            received,
            "it caught up without a snapshot: the test proves nothing"
        );
        println!("{release}: restored by a snapshot, {probes} probes were 200");
    })
    .await;
}
