//! Silence: a member that boots, and one that hangs.

use std::time::Duration;

use kelpie_etcd::{ProcessState, Sample};
use tokio::time::sleep;

use crate::script::{Going, Stage, State, page};

const NO_ANSWER: &str = "serializable_read: no answer";
const GRACE_IS_OVER: &str = "serializable_read: no answer since the boot grace ended";
const GRACE: Duration = Duration::from_mins(10);

fn booting(state: &mut State) {
    state.silent();
    state.answered = false;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_waits_for_its_peers_is_live_but_not_ready() {
    let stage = Stage::new();
    stage.member.change(booting);
    assert_eq!(stage.livez().await, "ok");
    let unready = stage.readyz().await;
    assert!(
        unready.contains("serializable_read: not known yet"),
        "{unready}"
    );
    sleep(GRACE).await;
    assert_eq!(stage.livez().await, GRACE_IS_OVER);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_process_is_dead_by_its_deadline() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(State::silent);
    assert_eq!(stage.livez().await, NO_ANSWER);
    stage.member.heal();
    assert_eq!(stage.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_metrics_listener_of_its_own_tells_for_how_long_it_takes() {
    let stage = Stage::new();
    let says = |has_leader| {
        stage.member.change(|state| {
            booting(state);
            state.own_metrics_listener = true;
            state.metrics = Going::Says(Sample {
                has_leader: Some(has_leader),
                ..page()
            });
        });
    };
    says(false);
    sleep(GRACE * 9).await;
    assert_eq!(stage.livez().await, "ok");
    says(true);
    assert_eq!(stage.livez().await, GRACE_IS_OVER);
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_the_client_port_tell_nothing_of_a_boot() {
    let stage = Stage::new();
    stage.member.change(|state| {
        state.silent();
        state.metrics = Going::Says(Sample {
            has_leader: Some(false),
            ..page()
        });
    });
    assert_eq!(stage.livez().await, NO_ANSWER);
}

#[tokio::test(start_paused = true)]
async fn the_process_table_tells_too() {
    let stage = Stage::new();
    let process = |process| {
        stage.member.change(|state| {
            booting(state);
            state.process = process;
        });
    };
    process(ProcessState::Stopped);
    assert_eq!(
        stage.livez().await,
        "serializable_read: the process is stopped"
    );
    sleep(GRACE).await;
    process(ProcessState::Alive);
    assert_eq!(stage.livez().await, "ok");
    process(ProcessState::Gone);
    assert_eq!(stage.livez().await, GRACE_IS_OVER);
}
