//! Catching up, stuck, and at rest.

use std::time::Duration;

use kelpie_etcd::{Sample, Status};
use tokio::time::sleep;

use crate::script::{Going, HEALTHY, Stage, page};

/// A follower whose reads do not end; `applied` and the leader's commit as given.
fn behind(stage: &Stage, applied: u64, leader_commit: Going<u64>) {
    stage.member.change(|state| {
        state.read_index = Going::Hangs;
        state.linearizable_read = Going::Hangs;
        state.leader_commit = leader_commit;
        state.status = Going::Says(Status {
            leader: 2,
            commit: applied,
            applied,
            ..HEALTHY
        });
    });
}

/// Probes once a second while the follower applies ten entries between two probes.
async fn catch_up(stage: &Stage, seconds: u64, leader_commit: &Going<u64>) -> Vec<String> {
    let mut answers = Vec::new();
    for second in 0..seconds {
        behind(stage, 9 + second * 10, leader_commit.clone());
        answers.push(stage.ready("read_index").await);
        sleep(Duration::from_millis(100)).await;
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_catches_up_is_ready_for_as_long_as_it_takes() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    let answers = catch_up(&stage, 120, &Going::Says(100_000)).await;
    assert!(answers.iter().all(|answer| answer == "ok"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_has_caught_up_and_does_not_answer_is_stuck() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    let answers = catch_up(&stage, 20, &Going::Says(12)).await;
    let last = answers.last().unwrap();
    assert!(last.starts_with("read loop stuck"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn where_the_leader_cannot_be_asked_progress_excuses_for_thirty_seconds() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    let answers = catch_up(&stage, 40, &Going::Hangs).await;
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
async fn one_that_applies_nothing_is_stuck() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    behind(&stage, 9, Going::Says(600));
    assert_eq!(stage.readyz().await, "ok", "slow is not unready");
    let last = stage.readyz_for(8).await;
    assert!(last.starts_with("read_index: apply stuck"), "{last}");
}

/// The raft loop stands still: a leader, no progress, no reads.
fn frozen(stage: &Stage) {
    stage.member.change(|state| {
        state.read_index = Going::Hangs;
        state.linearizable_read = Going::Hangs;
        state.status = Going::Says(Status {
            commit: 10,
            ..HEALTHY
        });
    });
}

#[tokio::test(start_paused = true)]
async fn a_frozen_raft_loop_is_named_after_ten_seconds() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    frozen(&stage);
    let early = stage.readyz_for(9).await;
    assert!(!early.contains("raft_loop"), "{early}");
    let late = stage.readyz_for(8).await;
    assert!(late.contains("raft_loop: raft loop stuck"), "{late}");
    assert_eq!(stage.livez().await, "ok", "livez is opt-in");
    stage.member.heal();
    assert_eq!(stage.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn livez_has_it_when_asked_for_and_needs_no_readyz_probes() {
    let stage = Stage::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(stage.livez().await, "ok");
    frozen(&stage);
    let mut seconds = 0;
    while stage.livez().await == "ok" {
        sleep(Duration::from_secs(5)).await;
        seconds += 5;
        assert!(seconds < 60);
    }
    assert!(seconds >= 10, "{seconds}");
    assert!(stage.livez().await.contains("raft loop stuck"));
}

#[tokio::test(start_paused = true)]
async fn slow_elections_and_snapshots_take_longer() {
    let slow = Stage::with(|options| options.election_timeout = Duration::from_secs(10));
    assert_eq!(slow.readyz().await, "ok");
    frozen(&slow);
    assert!(!slow.readyz_for(49).await.contains("raft_loop"));
    assert!(slow.readyz_for(10).await.contains("raft_loop"));

    let receiving = Stage::new();
    assert_eq!(receiving.readyz().await, "ok");
    frozen(&receiving);
    receiving.member.change(|state| {
        state.metrics = Going::Says(Sample {
            snapshots: 1,
            ..page()
        });
    });
    assert!(!receiving.readyz_for(60).await.contains("raft_loop"));
}

#[tokio::test(start_paused = true)]
async fn a_member_at_rest_is_not_frozen() {
    let stage = Stage::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(stage.readyz_for(60).await, "ok");
    assert_eq!(stage.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_excuse_comes_in_time_even_where_there_is_nothing_to_repeat() {
    let stage = Stage::new();
    behind(&stage, 9, Going::Says(100_000));
    let member = stage.member.clone();
    tokio::spawn(async move {
        for applied in 10.. {
            sleep(Duration::from_millis(50)).await;
            member.change(|state| {
                let status = Status {
                    leader: 2,
                    commit: applied,
                    applied,
                    ..HEALTHY
                };
                state.status = Going::Says(status);
            });
        }
    });
    assert_eq!(stage.readyz().await, "ok", "the first probe of all");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(stage.readyz().await, "ok", "the first for a minute");
}

#[tokio::test(start_paused = true)]
async fn a_read_index_in_time_asks_nobody_on_the_side() {
    let stage = Stage::new();
    for _ in 0..10 {
        assert_eq!(stage.readyz().await, "ok");
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(stage.member.calls("status"), 10);
    assert_eq!(stage.member.calls("leader_commit"), 0);
}
