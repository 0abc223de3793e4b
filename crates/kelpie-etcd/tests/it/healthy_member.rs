//! A healthy member, and the calls that probing it costs.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_etcd::{EtcdError, EtcdVersion, MemberStatus, WatchProgress};
use kelpie_health::CheckGroup;

use crate::fixture::{Fixture, HEALTHY, Scripted};

#[tokio::test(start_paused = true)]
async fn healthy_member_is_live_and_ready() {
    let fixture = Fixture::new();
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.readyz().await, "ok");
    assert_eq!(fixture.gauge("kelpie_etcd_probe_misconfigured"), "0");
}

#[tokio::test(start_paused = true)]
async fn checks_have_a_fixed_order() {
    let fixture = Fixture::new();
    let names = async |group| {
        let report = fixture.health.probe(group).await;
        let names = report.checks.iter().map(|check| check.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(
        names(CheckGroup::Livez).await,
        ["serializable_read", "raft_loop"]
    );
    assert_eq!(
        names(CheckGroup::Readyz).await,
        [
            "serializable_read",
            "data_corruption",
            "read_index",
            "defragmentation",
            "non_learner",
            "raft_loop",
            "watch"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn concurrent_probes_share_their_calls() {
    let fixture = Fixture::new();
    let probes = (0..50).map(|_| fixture.readyz());
    assert!(join_all(probes).await.iter().all(|answer| answer == "ok"));
    for call in ["read", "status", "read_index", "metrics", "watch"] {
        assert_eq!(fixture.member.calls(call), 1, "{call}");
    }
    for call in ["ping", "propose", "linearizable_read", "leader_commit"] {
        assert_eq!(fixture.member.calls(call), 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn fast_livez_makes_one_call() {
    let fixture = Fixture::new();
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.member.calls("read"), 1);
    // Once a minute it also asks whether the member is alone.
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.member.calls("members"), 1);
    assert_eq!(fixture.member.calls("read"), 2);
    for call in ["status", "read_index", "metrics", "ping"] {
        assert_eq!(fixture.member.calls(call), 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn read_index_on_v34_is_a_read() {
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        let version = Some(EtcdVersion(3, 4));
        script.status = Scripted::Returns(MemberStatus { version, ..HEALTHY });
    });
    assert_eq!(fixture.readyz().await, "ok");
    assert_eq!(fixture.member.calls("read_index"), 0);
    assert_eq!(fixture.member.calls("linearizable_read"), 1);
}

#[tokio::test(start_paused = true)]
async fn status_reveals_alarms_and_learners() {
    let fixture = Fixture::new();
    let status = |status| {
        fixture
            .member
            .change(|script| script.status = Scripted::Returns(status));
    };
    status(MemberStatus {
        is_corrupt: true,
        ..HEALTHY
    });
    assert_eq!(
        fixture.readyz().await,
        "data_corruption: alarm activated: CORRUPT"
    );
    assert_eq!(fixture.livez().await, "ok");

    status(MemberStatus {
        is_learner: true,
        ..HEALTHY
    });
    let refused = |script: &mut crate::fixture::MemberScript| {
        script.read_index = Scripted::Fails(EtcdError::Learner);
        script.ping = Scripted::Fails(EtcdError::Learner);
    };
    fixture.member.change(refused);
    assert_eq!(
        fixture.readyz().await,
        "non_learner: not supported for learner"
    );
    assert_eq!(fixture.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn proposals_are_rate_limited() {
    let fixture = Fixture::with(|options| options.checks.enable("raft_propose").unwrap());
    assert_eq!(fixture.readyz_for(29).await, "ok");
    assert_eq!(fixture.member.calls("propose"), 1);
    assert_eq!(fixture.readyz_for(4).await, "ok");
    assert_eq!(fixture.member.calls("propose"), 2);
}

#[tokio::test(start_paused = true)]
async fn refused_proposal_is_repeated_at_once() {
    let fixture = Fixture::with(|options| options.checks.enable("raft_propose").unwrap());
    fixture
        .member
        .change(|script| script.propose = Scripted::Fails(EtcdError::ConnectionRefused));
    assert_eq!(fixture.readyz().await, "raft_propose: connection refused");
    fixture.member.heal();
    // It added nothing to the log, so there is no reason to wait.
    assert_eq!(fixture.readyz().await, "ok");
    assert_eq!(fixture.member.calls("propose"), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_proposal_is_rate_limited() {
    let fixture = Fixture::with(|options| options.checks.enable("raft_propose").unwrap());
    let error = EtcdError::ServerTimeout("etcdserver: request timed out".to_owned());
    fixture
        .member
        .change(|script| script.propose = Scripted::Fails(error));
    for _ in 0..5 {
        assert_ne!(fixture.readyz().await, "ok");
    }
    assert_eq!(fixture.member.calls("propose"), 1);
    // It does not count for longer than a second.
    fixture.member.heal();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.readyz().await, "ok");
    assert_eq!(fixture.member.calls("propose"), 2);
}

#[tokio::test(start_paused = true)]
async fn stuck_write_path_is_seen_at_once() {
    let fixture = Fixture::with(|options| options.checks.enable("raft_propose").unwrap());
    assert_eq!(fixture.readyz_for(3).await, "ok");
    // The log cannot be written, so the raft loop hangs.
    fixture.member.change(|script| {
        script.propose = Scripted::Hangs;
        script.read_index = Scripted::Hangs;
    });
    let stuck = "write path stuck: a proposal without effect was not applied within 810ms";
    assert_eq!(fixture.readyz_check("raft_propose").await, stuck);
    assert_ne!(fixture.readyz_for(40).await, "ok");
    assert_eq!(fixture.readyz_check("raft_propose").await, stuck);
    fixture.member.heal();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fixture.readyz().await, "ok");
    // Two in flight at any time, each for 30 seconds at most.
    let proposals = fixture.member.calls("propose");
    assert!(proposals <= 6, "{proposals}");
}

#[tokio::test(start_paused = true)]
async fn stuck_watch_is_not_ready() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture
        .member
        .change(|script| script.watch = Scripted::Hangs);
    // Slow is not unready.
    assert_eq!(fixture.readyz().await, "ok");
    let stuck = fixture.readyz_for(8).await;
    assert!(stuck.starts_with("watch: watch stuck: "), "{stuck}");
    assert_eq!(fixture.livez().await, "ok");
    fixture.member.heal();
    assert_eq!(fixture.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn release_without_progress_is_not_asked() {
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.watch = Scripted::Hangs;
        script.status = Scripted::Returns(MemberStatus {
            watch_progress: WatchProgress::NeedsEvents,
            ..HEALTHY
        });
    });
    assert_eq!(fixture.readyz_for(10).await, "ok");
    assert_eq!(fixture.member.calls("watch"), 0);
}

#[tokio::test(start_paused = true)]
async fn defragmentation_excuses_a_watch() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(|script| {
        script.defragmenting();
        script.watch = Scripted::Hangs;
    });
    assert_eq!(
        fixture.readyz_for(20).await,
        "defragmentation: a defragmentation is running"
    );
}

#[tokio::test(start_paused = true)]
async fn only_an_alarm_is_exported_as_corruption() {
    const ALARM: &str = "kelpie_etcd_corrupt_alarm";
    let fixture = Fixture::new();
    for error in [
        EtcdError::ConnectionRefused,
        EtcdError::Misconfigured("the certificate has expired".to_owned()),
        EtcdError::NoResponse,
    ] {
        fixture.member.change(|script| script.fail_with(&error));
        let unready = fixture.readyz().await;
        assert!(unready.contains("data_corruption: "), "{unready}");
        assert_eq!(fixture.gauge(ALARM), "0", "{error}");
    }
    fixture.member.heal();
    let corrupt = MemberStatus {
        is_corrupt: true,
        ..HEALTHY
    };
    fixture
        .member
        .change(|script| script.status = Scripted::Returns(corrupt));
    fixture.readyz().await;
    assert_eq!(fixture.gauge(ALARM), "1");
    // The alarm is active until it is disarmed, also while the member is away.
    fixture
        .member
        .change(|script| script.fail_with(&EtcdError::ConnectionRefused));
    fixture.readyz().await;
    assert_eq!(fixture.gauge(ALARM), "1");
    fixture.member.heal();
    fixture.readyz().await;
    assert_eq!(fixture.gauge(ALARM), "0");
}

#[tokio::test(start_paused = true)]
async fn hanging_linearizable_read_fails() {
    let fixture = Fixture::with(|options| options.checks.enable("linearizable_read").unwrap());
    assert_eq!(fixture.readyz().await, "ok");
    fixture
        .member
        .change(|script| script.linearizable_read = Scripted::Hangs);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fixture.readyz().await, "linearizable_read: timed out");
}

#[tokio::test(start_paused = true)]
async fn slow_member_gets_no_extra_calls() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(crate::fixture::MemberScript::silent);
    let probes = join_all((0..50).map(|_| fixture.readyz()));
    let resume = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        fixture.member.heal();
    };
    let (answers, ()) = tokio::join!(probes, resume);
    assert!(answers.iter().all(|answer| answer == "ok"), "{answers:?}");
    for call in ["read", "status", "read_index"] {
        assert_eq!(fixture.member.calls(call), 2, "{call}");
    }
}
