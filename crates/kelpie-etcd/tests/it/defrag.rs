//! A defragmentation is no death, and not readiness either.

use std::time::Duration;

use kelpie_etcd::{Fault, Sample, Serving, Status, Version};
use tokio::time::sleep;

use crate::script::{Going, HEALTHY, Stage, page};

const RUNS: &str = "defragmentation: a defragmentation is running";
const HANGS: &str = "serializable_read: the read hangs, and no defragmentation is running";

#[tokio::test(start_paused = true)]
async fn livez_is_true_and_readyz_says_why_it_is_not() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(crate::script::State::defragmenting);
    for _ in 0..5 {
        assert_eq!(stage.livez().await, "ok");
        // The status is out for longer than any result is repeated, and holds all the same.
        sleep(Duration::from_secs(20)).await;
        assert_eq!(stage.readyz().await, RUNS);
    }
    stage.member.heal();
    assert_eq!(stage.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn livez_takes_a_fraction_of_its_deadline() {
    let stage = Stage::with(|options| options.health.livez_deadline = Duration::from_millis(500));
    stage.member.change(crate::script::State::defragmenting);
    let began = tokio::time::Instant::now();
    assert_eq!(stage.livez().await, "ok");
    assert!(began.elapsed() < Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn readyz_repeats_what_it_knows_and_does_not_wait_for_its_deadline() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(crate::script::State::defragmenting);
    for _ in 0..5 {
        let began = tokio::time::Instant::now();
        let report = stage.health.probe(kelpie_health::Group::Readyz).await;
        assert!(
            began.elapsed() < Duration::from_millis(300),
            "{:?}",
            began.elapsed()
        );
        let repeated = report.findings.iter().filter(|found| found.stale.is_some());
        let repeated: Vec<_> = repeated.map(|found| found.name.to_string()).collect();
        assert_eq!(repeated, ["data_corruption", "non_learner"]);
        sleep(Duration::from_secs(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_detection_the_same_is_taken_for_a_hang() {
    let stage = Stage::with(|options| options.defrag_detection = false);
    stage.member.change(crate::script::State::defragmenting);
    assert_eq!(stage.livez().await, HANGS);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_without_one_is_dead() {
    let stage = Stage::new();
    stage.member.change(crate::script::State::locked);
    assert_eq!(stage.livez().await, HANGS);
}

#[tokio::test(start_paused = true)]
async fn one_that_begins_and_ends_during_the_read_counts() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok", "the count is known");
    stage.member.change(|state| {
        state.locked();
        state.metrics = Going::Says(Sample {
            defrags: Some(1),
            ..page()
        });
    });
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(stage.livez().await, HANGS, "the next read is another");
}

#[tokio::test(start_paused = true)]
async fn where_it_cannot_be_known_the_health_service_has_to_answer() {
    let own = Fault::Own("404".to_owned());
    let stage = Stage::new();
    stage.member.change(|state| {
        state.locked();
        state.metrics = Going::Fails(own);
    });
    assert_eq!(stage.livez().await, "ok");
    stage.member.change(|state| state.ping = Going::Hangs);
    assert_eq!(stage.livez().await, "serializable_read: no answer");
}

#[tokio::test(start_paused = true)]
async fn the_health_service_tells_where_its_flag_is_set() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(|state| {
        state.locked();
        state.metrics = Going::Fails(Fault::Refused);
        state.ping = Going::Says(Serving::NotServing);
    });
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(stage.readyz().await, RUNS);
}

#[tokio::test(start_paused = true)]
async fn unknown_fails_no_check() {
    let stage = Stage::new();
    stage.member.change(|state| state.metrics = Going::Hangs);
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(|state| {
        state.metrics = Going::Says(Sample {
            defrag_inflight: None,
            ..page()
        });
    });
    assert_eq!(stage.readyz().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn the_read_index_of_3_4_waits_for_the_store_and_is_excused_by_a_leader() {
    let stage = Stage::new();
    let version = Some(Version(3, 4));
    stage
        .member
        .change(|state| state.status = Going::Says(Status { version, ..HEALTHY }));
    assert_eq!(stage.readyz().await, "ok");
    let defragmenting = |has_leader| {
        stage.member.change(|state| {
            state.defragmenting();
            state.metrics = Going::Says(Sample {
                defrag_inflight: Some(true),
                has_leader: Some(has_leader),
                ..page()
            });
        });
    };
    defragmenting(true);
    assert_eq!(stage.ready("read_index").await, "ok");
    defragmenting(false);
    assert_eq!(stage.ready("read_index").await, "no leader");
}

#[tokio::test(start_paused = true)]
async fn at_its_start_the_version_is_taken_from_the_metrics() {
    let stage = Stage::new();
    stage.member.change(crate::script::State::defragmenting);
    assert_eq!(stage.ready("read_index").await, "ok");
    assert_eq!(stage.ready("data_corruption").await, "not known yet");
}

#[tokio::test(start_paused = true)]
async fn an_error_during_one_passes() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(|state| {
        state.defragmenting();
        state.read = Going::Fails(Fault::Server("etcdserver: boom".to_owned()));
    });
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(stage.ready("serializable_read").await, "ok");
    stage
        .member
        .change(|state| state.metrics = Going::Says(page()));
    assert_eq!(stage.livez().await, "serializable_read: etcdserver: boom");
}
