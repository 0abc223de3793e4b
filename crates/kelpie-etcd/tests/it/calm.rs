//! A member that is well, and what asking it costs.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_etcd::{Fault, Status, Version};
use kelpie_health::Group;

use crate::script::{Going, HEALTHY, Stage};

#[tokio::test(start_paused = true)]
async fn a_healthy_member_is_live_and_ready() {
    let stage = Stage::new();
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(stage.readyz().await, "ok");
    assert_eq!(stage.gauge("kelpie_etcd_probe_misconfigured"), "0");
}

#[tokio::test(start_paused = true)]
async fn the_checks_stand_in_the_order_of_the_spec() {
    let stage = Stage::new();
    let names = async |group| {
        let report = stage.health.probe(group).await;
        let names = report.findings.iter().map(|found| found.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(Group::Livez).await, ["serializable_read"]);
    assert_eq!(
        names(Group::Readyz).await,
        [
            "serializable_read",
            "data_corruption",
            "read_index",
            "defragmentation",
            "non_learner",
            "raft_loop"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn fifty_probes_at_once_cost_one_call_each() {
    let stage = Stage::new();
    let probes = (0..50).map(|_| stage.readyz());
    assert!(join_all(probes).await.iter().all(|answer| answer == "ok"));
    for call in ["read", "status", "read_index", "metrics"] {
        assert_eq!(stage.member.calls(call), 1, "{call}");
    }
    for call in ["ping", "propose", "linearizable_read", "leader_commit"] {
        assert_eq!(stage.member.calls(call), 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_livez_asks_for_one_read_and_nothing_else() {
    let stage = Stage::new();
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(stage.member.calls("read"), 1);
    for call in ["status", "read_index", "metrics", "ping"] {
        assert_eq!(stage.member.calls(call), 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_index_of_3_4_is_a_linearizable_read() {
    let stage = Stage::new();
    stage.member.change(|state| {
        let version = Some(Version(3, 4));
        state.status = Going::Says(Status { version, ..HEALTHY });
    });
    assert_eq!(stage.readyz().await, "ok");
    assert_eq!(stage.member.calls("read_index"), 0);
    assert_eq!(stage.member.calls("linearizable_read"), 1);
}

#[tokio::test(start_paused = true)]
async fn alarms_and_learners_are_told_by_the_status() {
    let stage = Stage::new();
    let status = |status| {
        stage
            .member
            .change(|state| state.status = Going::Says(status));
    };
    status(Status {
        is_corrupt: true,
        ..HEALTHY
    });
    assert_eq!(
        stage.readyz().await,
        "data_corruption: alarm activated: CORRUPT"
    );
    assert_eq!(stage.livez().await, "ok");

    status(Status {
        is_learner: true,
        ..HEALTHY
    });
    let refused = |state: &mut crate::script::State| {
        state.read_index = Going::Fails(Fault::Learner);
        state.ping = Going::Fails(Fault::Learner);
    };
    stage.member.change(refused);
    assert_eq!(
        stage.readyz().await,
        "non_learner: not supported for learner"
    );
    assert_eq!(stage.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_proposal_is_made_every_thirty_seconds_at_most() {
    let stage = Stage::with(|options| options.checks.enable("raft_propose").unwrap());
    assert_eq!(stage.readyz_for(29).await, "ok");
    assert_eq!(stage.member.calls("propose"), 1);
    assert_eq!(stage.readyz_for(4).await, "ok");
    assert_eq!(stage.member.calls("propose"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_linearizable_read_that_times_out_fails_its_check() {
    let stage = Stage::with(|options| options.checks.enable("linearizable_read").unwrap());
    assert_eq!(stage.readyz().await, "ok");
    stage
        .member
        .change(|state| state.linearizable_read = Going::Hangs);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.readyz().await, "linearizable_read: timed out");
}

#[tokio::test(start_paused = true)]
async fn a_slow_member_is_asked_no_more_than_a_quick_one() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(crate::script::State::silent);
    let probes = join_all((0..50).map(|_| stage.readyz()));
    let resume = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.member.heal();
    };
    let (answers, ()) = tokio::join!(probes, resume);
    assert!(answers.iter().all(|answer| answer == "ok"), "{answers:?}");
    for call in ["read", "status", "read_index"] {
        assert_eq!(stage.member.calls(call), 2, "{call}");
    }
}
