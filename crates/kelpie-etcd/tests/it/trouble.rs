//! Faults: what fails livez, what fails readyz, what is trouble of our own.

use kelpie_etcd::Fault;

use crate::script::{Going, Stage};

const MISCONFIGURED: &str = "kelpie_etcd_probe_misconfigured";

#[tokio::test(start_paused = true)]
async fn a_refused_connection_fails_both_at_once() {
    let stage = Stage::new();
    stage.member.change(|state| state.fails(&Fault::Refused));
    let began = tokio::time::Instant::now();
    assert_eq!(stage.livez().await, "serializable_read: connection refused");
    let unready = stage.readyz().await;
    for check in [
        "serializable_read",
        "data_corruption",
        "read_index",
        "non_learner",
    ] {
        let reason = format!("{check}: connection refused");
        assert!(unready.contains(&reason), "{unready}");
    }
    assert!(began.elapsed().as_millis() < 100, "{:?}", began.elapsed());
    assert_eq!(stage.gauge(MISCONFIGURED), "0");
}

#[tokio::test(start_paused = true)]
async fn trouble_of_our_own_never_restarts_etcd() {
    let text = "the server refused the client certificate: it has expired";
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    stage
        .member
        .change(|state| state.fails(&Fault::Own(text.to_owned())));
    assert_eq!(stage.livez().await, "ok");
    let unready = stage.readyz().await;
    assert!(
        unready.contains(&format!("serializable_read: {text}")),
        "{unready}"
    );
    assert_eq!(stage.gauge(MISCONFIGURED), "1");
    stage.member.heal();
    assert_eq!(stage.readyz().await, "ok");
    assert_eq!(stage.gauge(MISCONFIGURED), "0");
}

#[tokio::test(start_paused = true)]
async fn a_denied_read_still_had_its_read_index() {
    let denied = Fault::Denied("etcdserver: permission denied".to_owned());
    let stage = Stage::new();
    stage.member.change(|state| {
        state.read = Going::Fails(denied.clone());
        state.read_index = Going::Fails(denied);
    });
    assert_eq!(stage.livez().await, "ok");
    assert_eq!(
        stage.readyz().await,
        "serializable_read: etcdserver: permission denied"
    );
    assert_eq!(stage.gauge(MISCONFIGURED), "1");
}

#[tokio::test(start_paused = true)]
async fn a_lost_quorum_is_said_at_once_and_kills_nobody() {
    let stage = Stage::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(stage.readyz().await, "ok");
    stage.member.change(|state| {
        state.read_index = Going::Fails(Fault::NoLeader);
        state.linearizable_read = Going::Fails(Fault::NoLeader);
        state.status = Going::Says(kelpie_etcd::Status {
            leader: 0,
            ..crate::script::HEALTHY
        });
    });
    for _ in 0..60 {
        let began = tokio::time::Instant::now();
        assert_eq!(stage.readyz().await, "read_index: no leader");
        assert_eq!(stage.livez().await, "ok");
        assert!(began.elapsed().as_millis() < 10);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_sent_just_before_the_loss_hides_it_from_nobody() {
    let stage = Stage::new();
    assert_eq!(stage.readyz().await, "ok");
    // etcd looks for a leader when a call begins; these two began before.
    stage.member.change(|state| state.read_index = Going::Hangs);
    assert_eq!(stage.readyz().await, "ok", "slow is not unready");
    stage.member.change(|state| {
        state.status = Going::Says(kelpie_etcd::Status {
            leader: 0,
            ..crate::script::HEALTHY
        });
    });
    assert_eq!(stage.readyz().await, "read_index: no leader");
}

#[tokio::test(start_paused = true)]
async fn a_log_in_that_needs_a_quorum_is_no_death() {
    let stage = Stage::new();
    stage.member.change(|state| {
        state.read = Going::Fails(Fault::NoToken);
        state.status = Going::Fails(Fault::NoToken);
        state.read_index = Going::Fails(Fault::NoToken);
    });
    assert_eq!(stage.livez().await, "ok");
    assert!(stage.readyz().await.contains("no auth token"));
    assert_eq!(stage.gauge(MISCONFIGURED), "0");
    stage.member.change(|state| state.ping = Going::Hangs);
    assert_eq!(stage.livez().await, "serializable_read: no answer");
}

#[tokio::test(start_paused = true)]
async fn a_metrics_listener_that_alone_does_not_answer_is_trouble_of_our_own() {
    for going in [Going::Fails(Fault::Refused), Going::Hangs] {
        let stage = Stage::new();
        stage.member.change(|state| {
            state.metrics = going.clone();
        });
        assert_eq!(stage.readyz().await, "ok");
        assert_eq!(stage.gauge(MISCONFIGURED), "0", "no flag names it");

        stage
            .member
            .change(|state| state.own_metrics_listener = true);
        assert_eq!(stage.readyz().await, "ok");
        assert_eq!(stage.gauge(MISCONFIGURED), "1", "{going:?}");
        stage.member.heal();
        assert_eq!(stage.readyz().await, "ok");
        assert_eq!(stage.gauge(MISCONFIGURED), "0", "{going:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_metrics_listener_that_is_gone_with_etcd_is_not() {
    let stage = Stage::new();
    stage.member.change(|state| {
        state.fails(&Fault::Refused);
        state.own_metrics_listener = true;
    });
    stage.readyz().await;
    assert_eq!(stage.gauge(MISCONFIGURED), "0");
    stage.member.change(|state| {
        state.silent();
        state.own_metrics_listener = true;
    });
    stage.readyz().await;
    assert_eq!(stage.gauge(MISCONFIGURED), "0");
}
