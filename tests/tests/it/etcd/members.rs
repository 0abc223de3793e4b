//! Members that come, catch up and go.

use std::time::Duration;

use kelpie_e2e::{Cluster, Etcd, Setup, poll};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, beside, on_every_line, on_lines, own_answer, quiet};

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

/// Entries a member has applied.
async fn applied(member: &Etcd) -> f64 {
    let applied = member.metric("etcd_server_proposals_applied_total").await;
    applied.unwrap()
}

#[tokio::test]
async fn a_slow_follower_that_advances_is_ready() {
    let _quiet = quiet().await;
    on_every_line(async |line| {
        let cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        let leader = cluster.leader().await.unwrap();
        let follower = cluster.follower().await.unwrap();
        let slow = &cluster.members[follower];
        let kelpie = beside(slow, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();

        slow.pause().await.unwrap();
        cluster.members[leader].fill(100, 1_000_000).await.unwrap();
        // Now it works on, two entries at a time.
        let resumed = Instant::now();
        let done = watch::Sender::new(false);
        let goal = applied(&cluster.members[leader]).await - 5.0;
        let work_slowly = async {
            let mut have = 0.0;
            while have < goal {
                slow.resume().unwrap();
                have = poll::until("two entries more", PATIENCE, async || {
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
                    // It was stopped; that it advances is not known at once.
                    (_, None) => assert!(resumed.elapsed() < PATIENCE / 2, "{}", ready.body),
                    (_, Some(_)) => refused.push(ready.body),
                }
                assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
            }
            (first, excused, refused)
        };
        let theirs = own_answer(slow, "/readyz", PATIENCE);
        let ((), (first, excused, refused), theirs) = tokio::join!(work_slowly, probe, theirs);
        println!(
            "{line}: a follower caught up in {:?}; ready after {first:?}, {excused} probes were \
             200 before; etcd's own readyz: {theirs}",
            resumed.elapsed()
        );
        assert!(excused > 0, "never ready while it was behind");
        // Where processors are scarce, a member that is stopped most of the time may fail to say once
        // how far it is.
        assert!(
            refused.len() * 4 <= excused,
            "not ready any more: {refused:?}"
        );
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_follower_restored_by_a_snapshot_is_never_called_dead() {
    let _quiet = quiet().await;
    // 3.4 keeps 5,000 entries whatever it is told, and so sends them instead; 3.6 and 3.7 drop
    // entries a hundred at a time.
    on_lines(&["etcd-3.5", "etcd-3.6", "etcd-3.7"], async |line| {
        let keep = match line {
            "etcd-3.5" => "--experimental-snapshot-catchup-entries=10",
            _ => "--snapshot-catchup-entries=10",
        };
        let setup = Setup::new(line).flag("--snapshot-count=50").flag(keep);
        let mut cluster = Cluster::start(&setup, 3).await.unwrap();
        let leader = cluster.leader().await.unwrap();
        let follower = cluster.follower().await.unwrap();
        let flags = ["--enable=livez/raft_loop", "--livez-deadline=2s"];
        let kelpie = beside(&cluster.members[follower], &flags).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        cluster.members[follower].kill();
        cluster.members[leader].fill(250, 300_000).await.unwrap();
        kelpie.until("/livez", 503, PATIENCE).await.unwrap();
        cluster.members[follower].relaunch().unwrap();
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();

        let began = Instant::now();
        let mut probes = 0;
        while began.elapsed() < Duration::from_secs(4) {
            for target in ["/livez", "/readyz/raft_loop"] {
                let reply = kelpie.get(target).await.unwrap();
                let after = began.elapsed();
                assert_eq!(
                    reply.status, 200,
                    "{target} after {after:?}: {}",
                    reply.body
                );
            }
            probes += 1;
            sleep(Duration::from_millis(20)).await;
        }
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        let metrics = cluster.members[follower].metrics().await.unwrap();
        let received = metrics.lines().any(|line| {
            line.starts_with("etcd_network_snapshot_receive_success{") && !line.ends_with(" 0")
        });
        assert!(
            received,
            "it caught up without a snapshot: the test proves nothing"
        );
        println!("{line}: restored by a snapshot, {probes} probes were 200");
    })
    .await;
}
