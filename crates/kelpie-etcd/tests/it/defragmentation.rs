//! During a defragmentation livez passes and readyz fails.

use std::time::Duration;

use kelpie_etcd::{EtcdError, EtcdMetrics, EtcdVersion, MemberStatus, ServingStatus};
use tokio::time::sleep;

use crate::fixture::{Fixture, HEALTHY, Scripted, idle_metrics};

const RUNS: &str = "defragmentation: a defragmentation is running";
const HANGS: &str = "serializable_read: the read hangs, and no defragmentation is running";

#[tokio::test(start_paused = true)]
async fn livez_passes_and_readyz_names_the_defrag() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture
        .member
        .change(crate::fixture::MemberScript::defragmenting);
    for _ in 0..5 {
        assert_eq!(fixture.livez().await, "ok");
        // The status call hangs for longer than results are usually reused. It is reused anyway.
        sleep(Duration::from_secs(20)).await;
        assert_eq!(fixture.readyz().await, RUNS);
    }
    fixture.member.heal();
    assert_eq!(fixture.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn livez_answers_before_its_deadline() {
    let fixture =
        Fixture::with(|options| options.health.livez_deadline = Duration::from_millis(500));
    fixture
        .member
        .change(crate::fixture::MemberScript::defragmenting);
    let started = tokio::time::Instant::now();
    assert_eq!(fixture.livez().await, "ok");
    assert!(started.elapsed() < Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn readyz_reuses_results_before_its_deadline() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture
        .member
        .change(crate::fixture::MemberScript::defragmenting);
    for _ in 0..5 {
        let started = tokio::time::Instant::now();
        let report = fixture
            .health
            .probe(kelpie_health::CheckGroup::Readyz)
            .await;
        assert!(
            started.elapsed() < Duration::from_millis(300),
            "{:?}",
            started.elapsed()
        );
        let reused = report
            .checks
            .iter()
            .filter(|check| check.reused_age.is_some());
        let reused: Vec<_> = reused.map(|check| check.name.to_string()).collect();
        assert_eq!(reused, ["data_corruption", "non_learner"]);
        sleep(Duration::from_secs(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_detection_livez_fails() {
    let fixture = Fixture::with(|options| options.defrag_detection = false);
    fixture
        .member
        .change(crate::fixture::MemberScript::defragmenting);
    assert_eq!(fixture.livez().await, HANGS);
}

#[tokio::test(start_paused = true)]
async fn hanging_store_without_defrag_fails_livez() {
    let fixture = Fixture::new();
    fixture.member.change(crate::fixture::MemberScript::locked);
    assert_eq!(fixture.livez().await, HANGS);
}

#[tokio::test(start_paused = true)]
async fn short_defrag_during_the_read_counts() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok", "now the counter is known");
    fixture.member.change(|script| {
        script.locked();
        script.metrics = Scripted::Returns(EtcdMetrics {
            defrags: Some(1),
            ..idle_metrics()
        });
    });
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.livez().await, HANGS, "the next read has no defrag");
}

#[tokio::test(start_paused = true)]
async fn unknown_defrag_needs_a_ping_answer() {
    let not_found = EtcdError::Misconfigured("404".to_owned());
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.locked();
        script.metrics = Scripted::Fails(not_found);
    });
    assert_eq!(fixture.livez().await, "ok");
    fixture
        .member
        .change(|script| script.ping = Scripted::Hangs);
    assert_eq!(fixture.livez().await, "serializable_read: no answer");
}

#[tokio::test(start_paused = true)]
async fn not_serving_means_defrag() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(|script| {
        script.locked();
        script.metrics = Scripted::Fails(EtcdError::ConnectionRefused);
        script.ping = Scripted::Returns(ServingStatus::NotServing);
    });
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.readyz().await, RUNS);
}

#[tokio::test(start_paused = true)]
async fn unknown_defrag_fails_no_check() {
    let fixture = Fixture::new();
    fixture
        .member
        .change(|script| script.metrics = Scripted::Hangs);
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(|script| {
        script.metrics = Scripted::Returns(EtcdMetrics {
            defrag_inflight: None,
            ..idle_metrics()
        });
    });
    assert_eq!(fixture.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn leader_excuses_read_index_on_v34() {
    let fixture = Fixture::new();
    let version = Some(EtcdVersion(3, 4));
    fixture
        .member
        .change(|script| script.status = Scripted::Returns(MemberStatus { version, ..HEALTHY }));
    assert_eq!(fixture.readyz().await, "ok");
    let defragmenting = |has_leader| {
        fixture.member.change(|script| {
            script.defragmenting();
            script.metrics = Scripted::Returns(EtcdMetrics {
                defrag_inflight: Some(true),
                has_leader: Some(has_leader),
                ..idle_metrics()
            });
        });
    };
    defragmenting(true);
    assert_eq!(fixture.readyz_check("read_index").await, "ok");
    defragmenting(false);
    assert_eq!(fixture.readyz_check("read_index").await, "no leader");
}

#[tokio::test(start_paused = true)]
async fn first_version_comes_from_the_metrics() {
    let fixture = Fixture::new();
    fixture
        .member
        .change(crate::fixture::MemberScript::defragmenting);
    assert_eq!(fixture.readyz_check("read_index").await, "ok");
    assert_eq!(
        fixture.readyz_check("data_corruption").await,
        "not known yet"
    );
}

#[tokio::test(start_paused = true)]
async fn server_error_during_defrag_passes() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(|script| {
        script.defragmenting();
        script.read = Scripted::Fails(EtcdError::ServerError("etcdserver: boom".to_owned()));
    });
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(fixture.readyz_check("serializable_read").await, "ok");
    fixture
        .member
        .change(|script| script.metrics = Scripted::Returns(idle_metrics()));
    assert_eq!(fixture.livez().await, "serializable_read: etcdserver: boom");
}
