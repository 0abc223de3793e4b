//! Members that come, catch up and go.

use std::time::Duration;

use kelpie_e2e::{Cluster, Setup};
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, beside, on_every_line, on_lines, quiet};

#[tokio::test]
async fn a_learner_is_live_and_not_ready_until_it_is_promoted() {
    on_every_line(async |line| {
        let mut cluster = Cluster::start(&Setup::new(line), 1).await.unwrap();
        let learner = cluster.add_learner().await.unwrap();
        let kelpie = beside(learner, &[]).await;
        let ready = kelpie
            .until("/readyz/non_learner", 503, PATIENCE)
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
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_replaced_member_is_found_again() {
    on_every_line(async |line| {
        let mut cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        let follower = cluster.follower().await.unwrap();
        let kelpie = beside(&cluster.members[follower], &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        cluster.replace(follower).await.unwrap();
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_is_gone_costs_a_follower_at_most_a_moment() {
    on_every_line(async |line| {
        let mut cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        let leader = cluster.leader().await.unwrap();
        let kelpie = beside(&cluster.members[(leader + 1) % 3], &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
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
        println!("{line}, leader killed: a follower's readyz failed last after {last_failure:?}");
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}

/// Entries a follower has not got yet.
async fn lag(cluster: &Cluster, follower: usize) -> i64 {
    let mut indexes = Vec::new();
    for member in [cluster.leader().await.unwrap(), follower] {
        let applied = cluster.members[member]
            .metric("etcd_server_proposals_applied_total")
            .await;
        indexes.push(applied.unwrap());
    }
    #[expect(clippy::cast_possible_truncation, reason = "a count of a few hundred")]
    let lag = (indexes[0] - indexes[1]) as i64;
    lag
}

#[tokio::test]
async fn a_slow_follower_that_advances_is_ready() {
    let _quiet = quiet().await;
    on_every_line(async |line| {
        let cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        let (leader, follower) = (
            cluster.leader().await.unwrap(),
            cluster.follower().await.unwrap(),
        );
        let slow = &cluster.members[follower];
        let kelpie = beside(slow, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        slow.pause().unwrap();
        cluster.members[leader].fill(100, 1_000_000).await.unwrap();

        // A member that gets a fifth of a processor: it works, slowly.
        let done = tokio::sync::watch::Sender::new(false);
        let stutter = async {
            while !*done.borrow() {
                slow.resume().unwrap();
                sleep(Duration::from_millis(20)).await;
                slow.pause().unwrap();
                sleep(Duration::from_millis(60)).await;
            }
            slow.resume().unwrap();
        };
        let watch = async {
            let began = Instant::now();
            let (mut probes, mut refused) = (0, Vec::new());
            let mut behind = lag(&cluster, follower).await;
            let first = behind;
            while behind > 5 && began.elapsed() < PATIENCE {
                let reply = kelpie.get("/readyz/read_index").await.unwrap();
                probes += 1;
                // Having been away, it may look for a leader first.
                let looking = reply.body.contains("no leader");
                if reply.status != 200 && !(looking && began.elapsed() < PATIENCE / 4) {
                    refused.push((began.elapsed(), reply.body));
                }
                assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
                behind = lag(&cluster, follower).await;
            }
            done.send_replace(true);
            (probes, refused, first, began.elapsed())
        };
        let ((), (probes, refused, first, took)) = tokio::join!(stutter, watch);
        println!(
            "{line}: a follower {first} entries behind caught up in {took:?}, {probes} probes"
        );
        assert!(first > 50, "it was not behind: {first}");
        assert!(refused.is_empty(), "not ready: {refused:?}");
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_follower_restored_by_a_snapshot_is_never_called_dead() {
    let _quiet = quiet().await;
    // 3.4 keeps 5,000 entries whatever it is told, and so sends them instead.
    on_lines(&["etcd-3.5", "etcd-3.6", "etcd-3.7"], async |line| {
        let keep = match line {
            "etcd-3.5" => "--experimental-snapshot-catchup-entries=10",
            _ => "--snapshot-catchup-entries=10",
        };
        let setup = Setup::new(line).flag("--snapshot-count=10").flag(keep);
        let cluster = Cluster::start(&setup, 3).await.unwrap();
        let (leader, follower) = (
            cluster.leader().await.unwrap(),
            cluster.follower().await.unwrap(),
        );
        let behind = &cluster.members[follower];
        let flags = ["--enable=livez/raft_loop", "--livez-deadline=2s"];
        let kelpie = beside(behind, &flags).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        behind.pause().unwrap();
        cluster.members[leader].fill(60, 1_000_000).await.unwrap();
        behind.resume().unwrap();

        let began = Instant::now();
        let mut probes = 0;
        while lag(&cluster, follower).await > 5 || began.elapsed() < Duration::from_secs(2) {
            let live = kelpie.get("/livez").await.unwrap();
            assert_eq!(
                live.status,
                200,
                "after {:?}: {}",
                began.elapsed(),
                live.body
            );
            let stuck = kelpie.get("/readyz/raft_loop").await.unwrap();
            assert_eq!(
                stuck.status,
                200,
                "after {:?}: {}",
                began.elapsed(),
                stuck.body
            );
            probes += 1;
            assert!(began.elapsed() < PATIENCE, "it never caught up");
        }
        let metrics = behind.metrics().await.unwrap();
        let received = metrics.lines().any(|line| {
            line.starts_with("etcd_network_snapshot_receive_success{") && !line.ends_with(" 0")
        });
        assert!(
            received,
            "it caught up without a snapshot: the test proves nothing"
        );
        println!("{line}: restored by a snapshot, {probes} probes were 200");
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}
