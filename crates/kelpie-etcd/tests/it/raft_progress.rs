//! Members that catch up, are stuck, or are idle.

use std::time::Duration;

use kelpie_etcd::{EtcdMetrics, MemberStatus};
use tokio::time::sleep;

use crate::fixture::{Fixture, HEALTHY, Scripted, idle_metrics};

/// Makes the member a follower whose reads hang, with the given applied and commit indices.
fn behind(fixture: &Fixture, applied: u64, leader_commit: Scripted<u64>) {
    fixture.member.change(|script| {
        script.read_index = Scripted::Hangs;
        script.linearizable_read = Scripted::Hangs;
        script.leader_commit = leader_commit;
        script.status = Scripted::Returns(MemberStatus {
            leader: 2,
            commit: applied,
            applied,
            ..HEALTHY
        });
    });
}

/// Probes once a second. The follower applies ten entries between two probes.
async fn catch_up(fixture: &Fixture, seconds: u64, leader_commit: &Scripted<u64>) -> Vec<String> {
    let mut answers = Vec::new();
    for second in 0..seconds {
        behind(fixture, 9 + second * 10, leader_commit.clone());
        answers.push(fixture.readyz_check("read_index").await);
        sleep(Duration::from_millis(100)).await;
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn follower_catching_up_is_ready() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    let answers = catch_up(&fixture, 120, &Scripted::Returns(100_000)).await;
    assert!(answers.iter().all(|answer| answer == "ok"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn caught_up_follower_without_reads_is_stuck() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    let answers = catch_up(&fixture, 20, &Scripted::Returns(12)).await;
    let last = answers.last().unwrap();
    assert!(last.starts_with("read loop stuck"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn blind_progress_excuses_for_thirty_seconds() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    let answers = catch_up(&fixture, 40, &Scripted::Hangs).await;
    assert!(
        answers[..28].iter().all(|answer| answer == "ok"),
        "{answers:?}"
    );
    assert!(
        answers[39].starts_with("read loop stuck"),
        "{}",
        answers[39]
    );
}

#[tokio::test(start_paused = true)]
async fn follower_that_applies_nothing_is_stuck() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    behind(&fixture, 9, Scripted::Returns(600));
    assert_eq!(fixture.readyz().await, "ok", "slow is not unready");
    let last = fixture.readyz_for(8).await;
    assert!(last.starts_with("read_index: apply stuck"), "{last}");
}

/// Stops the raft loop: there is a leader, but no progress and no read completes.
fn stuck(fixture: &Fixture) {
    fixture.member.change(|script| {
        script.read_index = Scripted::Hangs;
        script.linearizable_read = Scripted::Hangs;
        script.status = Scripted::Returns(MemberStatus {
            commit: 10,
            ..HEALTHY
        });
    });
}

#[tokio::test(start_paused = true)]
async fn stuck_raft_loop_is_reported_after_ten_seconds() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    stuck(&fixture);
    let early = fixture.readyz_for(9).await;
    assert!(!early.contains("raft_loop"), "{early}");
    let late = fixture.readyz_for(8).await;
    assert!(late.contains("raft_loop: raft loop stuck"), "{late}");
    assert_eq!(fixture.livez().await, "ok", "livez is opt-in");
    fixture.member.heal();
    assert_eq!(fixture.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn rare_probes_find_a_stuck_raft_loop() {
    for period in [12, 30, 60].map(Duration::from_secs) {
        let fixture = Fixture::with(|options| options.checks.enable("livez/raft_loop").unwrap());
        assert_eq!(fixture.livez().await, "ok");
        stuck(&fixture);
        let mut last = String::new();
        for probe in 0..4 {
            last = fixture.livez().await;
            assert!(probe > 1 || last == "ok", "{period:?}: two reads, {last}");
            sleep(period).await;
        }
        assert!(
            last.contains("raft_loop: raft loop stuck"),
            "{period:?}: {last}"
        );
        fixture.member.heal();
        assert_eq!(fixture.livez().await, "ok", "{period:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn livez_raft_loop_needs_no_readyz_probes() {
    let fixture = Fixture::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(fixture.livez().await, "ok");
    stuck(&fixture);
    let mut seconds = 0;
    while fixture.livez().await == "ok" {
        sleep(Duration::from_secs(5)).await;
        seconds += 5;
        assert!(seconds < 60);
    }
    assert!(seconds >= 10, "{seconds}");
    assert!(fixture.livez().await.contains("raft loop stuck"));
}

#[tokio::test(start_paused = true)]
async fn slow_elections_and_snapshots_delay_the_report() {
    let slow = Fixture::with(|options| options.election_timeout = Duration::from_secs(10));
    assert_eq!(slow.readyz().await, "ok");
    stuck(&slow);
    assert!(!slow.readyz_for(49).await.contains("raft_loop"));
    assert!(slow.readyz_for(10).await.contains("raft_loop"));

    let receiving = Fixture::new();
    assert_eq!(receiving.readyz().await, "ok");
    stuck(&receiving);
    receiving.member.change(|script| {
        script.metrics = Scripted::Returns(EtcdMetrics {
            snapshots: 1,
            ..idle_metrics()
        });
    });
    assert!(!receiving.readyz_for(60).await.contains("raft_loop"));
}

#[tokio::test(start_paused = true)]
async fn idle_member_is_not_stuck() {
    let fixture = Fixture::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(fixture.readyz_for(60).await, "ok");
    assert_eq!(fixture.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn excuse_comes_before_the_deadline() {
    let fixture = Fixture::new();
    behind(&fixture, 9, Scripted::Returns(100_000));
    let member = fixture.member.clone();
    tokio::spawn(async move {
        for applied in 10.. {
            sleep(Duration::from_millis(50)).await;
            member.change(|script| {
                let status = MemberStatus {
                    leader: 2,
                    commit: applied,
                    applied,
                    ..HEALTHY
                };
                script.status = Scripted::Returns(status);
            });
        }
    });
    assert_eq!(fixture.readyz().await, "ok", "the first probe of all");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.readyz().await, "ok", "the first for a minute");
}

#[tokio::test(start_paused = true)]
async fn fast_read_index_makes_no_side_calls() {
    let fixture = Fixture::new();
    for _ in 0..10 {
        assert_eq!(fixture.readyz().await, "ok");
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(fixture.member.calls("status"), 10);
    assert_eq!(fixture.member.calls("leader_commit"), 0);
}
