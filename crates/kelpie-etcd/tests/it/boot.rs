//! A member that boots, and one that hangs.

use std::time::Duration;

use kelpie_etcd::{EtcdMetrics, ProcessState};
use tokio::time::sleep;

use crate::fixture::{Fixture, MemberScript, Scripted, idle_metrics};

const NO_ANSWER: &str = "serializable_read: no answer";
const GRACE_IS_OVER: &str = "serializable_read: no answer since the boot grace ended";
const GRACE: Duration = Duration::from_mins(10);

fn booting(script: &mut MemberScript) {
    script.silent();
    script.answered = false;
}

#[tokio::test(start_paused = true)]
async fn booting_member_is_live_but_not_ready() {
    let fixture = Fixture::new();
    fixture.member.change(booting);
    assert_eq!(fixture.livez().await, "ok");
    let unready = fixture.readyz().await;
    assert!(
        unready.contains("serializable_read: not known yet"),
        "{unready}"
    );
    sleep(GRACE).await;
    assert_eq!(fixture.livez().await, GRACE_IS_OVER);
}

#[tokio::test(start_paused = true)]
async fn silent_member_fails_livez() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(MemberScript::silent);
    assert_eq!(fixture.livez().await, NO_ANSWER);
    fixture.member.heal();
    assert_eq!(fixture.livez().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn separate_metrics_listener_extends_the_boot() {
    let fixture = Fixture::new();
    let report_leader = |has_leader| {
        fixture.member.change(|script| {
            booting(script);
            script.own_metrics_listener = true;
            script.metrics = Scripted::Returns(EtcdMetrics {
                has_leader: Some(has_leader),
                ..idle_metrics()
            });
        });
    };
    report_leader(false);
    sleep(GRACE * 9).await;
    assert_eq!(fixture.livez().await, "ok");
    report_leader(true);
    assert_eq!(fixture.livez().await, GRACE_IS_OVER);
}

#[tokio::test(start_paused = true)]
async fn client_port_metrics_prove_no_boot() {
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.silent();
        script.metrics = Scripted::Returns(EtcdMetrics {
            has_leader: Some(false),
            ..idle_metrics()
        });
    });
    assert_eq!(fixture.livez().await, NO_ANSWER);
}

#[tokio::test(start_paused = true)]
async fn process_state_decides() {
    let fixture = Fixture::new();
    let process = |process| {
        fixture.member.change(|script| {
            booting(script);
            script.process = process;
        });
    };
    process(ProcessState::Stopped);
    assert_eq!(
        fixture.livez().await,
        "serializable_read: the process is stopped"
    );
    sleep(GRACE).await;
    process(ProcessState::Alive);
    assert_eq!(fixture.livez().await, "ok");
    process(ProcessState::Gone);
    assert_eq!(fixture.livez().await, GRACE_IS_OVER);
}
