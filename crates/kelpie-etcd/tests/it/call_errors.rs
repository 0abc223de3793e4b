//! Call errors: which fail livez, which fail readyz, and which are problems of the probe.

use kelpie_etcd::EtcdError;

use crate::fixture::{Fixture, Scripted};

const MISCONFIGURED: &str = "kelpie_etcd_probe_misconfigured";

#[tokio::test(start_paused = true)]
async fn refused_connection_fails_both_groups() {
    let fixture = Fixture::new();
    fixture
        .member
        .change(|script| script.fail_with(&EtcdError::ConnectionRefused));
    let started = tokio::time::Instant::now();
    assert_eq!(
        fixture.livez().await,
        "serializable_read: connection refused"
    );
    let unready = fixture.readyz().await;
    for check in [
        "serializable_read",
        "data_corruption",
        "read_index",
        "non_learner",
    ] {
        let reason = format!("{check}: connection refused");
        assert!(unready.contains(&reason), "{unready}");
    }
    assert!(
        started.elapsed().as_millis() < 100,
        "{:?}",
        started.elapsed()
    );
    assert_eq!(fixture.gauge(MISCONFIGURED), "0");
}

#[tokio::test(start_paused = true)]
async fn probe_problem_never_fails_livez() {
    let text = "the server rejected the client certificate: it has expired";
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    fixture
        .member
        .change(|script| script.fail_with(&EtcdError::Misconfigured(text.to_owned())));
    assert_eq!(fixture.livez().await, "ok");
    let unready = fixture.readyz().await;
    assert!(
        unready.contains(&format!("serializable_read: {text}")),
        "{unready}"
    );
    assert_eq!(fixture.gauge(MISCONFIGURED), "1");
    fixture.member.heal();
    assert_eq!(fixture.readyz().await, "ok");
    assert_eq!(fixture.gauge(MISCONFIGURED), "0");
}

#[tokio::test(start_paused = true)]
async fn denied_read_passes_read_index() {
    let denied = EtcdError::AccessDenied("etcdserver: permission denied".to_owned());
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.read = Scripted::Fails(denied.clone());
        script.read_index = Scripted::Fails(denied);
    });
    assert_eq!(fixture.livez().await, "ok");
    assert_eq!(
        fixture.readyz().await,
        "serializable_read: etcdserver: permission denied"
    );
    assert_eq!(fixture.gauge(MISCONFIGURED), "1");
}

#[tokio::test(start_paused = true)]
async fn lost_quorum_fails_readyz_only() {
    let fixture = Fixture::with(|options| options.checks.enable("livez/raft_loop").unwrap());
    assert_eq!(fixture.readyz().await, "ok");
    fixture.member.change(|script| {
        script.read_index = Scripted::Fails(EtcdError::NoLeader);
        script.linearizable_read = Scripted::Fails(EtcdError::NoLeader);
        script.status = Scripted::Returns(kelpie_etcd::MemberStatus {
            leader: 0,
            ..crate::fixture::HEALTHY
        });
    });
    for _ in 0..60 {
        let started = tokio::time::Instant::now();
        assert_eq!(fixture.readyz().await, "read_index: no leader");
        assert_eq!(fixture.livez().await, "ok");
        assert!(started.elapsed().as_millis() < 10);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn call_before_the_loss_hides_nothing() {
    let fixture = Fixture::new();
    assert_eq!(fixture.readyz().await, "ok");
    // etcd looks for a leader when a call begins, and these two calls began before the loss.
    fixture
        .member
        .change(|script| script.read_index = Scripted::Hangs);
    assert_eq!(fixture.readyz().await, "ok", "slow is not unready");
    fixture.member.change(|script| {
        script.status = Scripted::Returns(kelpie_etcd::MemberStatus {
            leader: 0,
            ..crate::fixture::HEALTHY
        });
    });
    assert_eq!(fixture.readyz().await, "read_index: no leader");
}

#[tokio::test(start_paused = true)]
async fn missing_token_passes_livez() {
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.read = Scripted::Fails(EtcdError::NoToken);
        script.status = Scripted::Fails(EtcdError::NoToken);
        script.read_index = Scripted::Fails(EtcdError::NoToken);
    });
    assert_eq!(fixture.livez().await, "ok");
    assert!(fixture.readyz().await.contains("no auth token"));
    assert_eq!(fixture.gauge(MISCONFIGURED), "0");
    fixture
        .member
        .change(|script| script.ping = Scripted::Hangs);
    assert_eq!(fixture.livez().await, "serializable_read: no answer");
}

#[tokio::test(start_paused = true)]
async fn silent_metrics_listener_is_a_probe_problem() {
    for scripted in [
        Scripted::Fails(EtcdError::ConnectionRefused),
        Scripted::Hangs,
    ] {
        let fixture = Fixture::new();
        fixture.member.change(|script| {
            script.metrics = scripted.clone();
        });
        assert_eq!(fixture.readyz().await, "ok");
        assert_eq!(fixture.gauge(MISCONFIGURED), "0", "not set by a flag");

        fixture
            .member
            .change(|script| script.own_metrics_listener = true);
        assert_eq!(fixture.readyz().await, "ok");
        assert_eq!(fixture.gauge(MISCONFIGURED), "1", "{scripted:?}");
        fixture.member.heal();
        assert_eq!(fixture.readyz().await, "ok");
        assert_eq!(fixture.gauge(MISCONFIGURED), "0", "{scripted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn listener_gone_with_etcd_is_no_problem() {
    let fixture = Fixture::new();
    fixture.member.change(|script| {
        script.fail_with(&EtcdError::ConnectionRefused);
        script.own_metrics_listener = true;
    });
    fixture.readyz().await;
    assert_eq!(fixture.gauge(MISCONFIGURED), "0");
    fixture.member.change(|script| {
        script.silent();
        script.own_metrics_listener = true;
    });
    fixture.readyz().await;
    assert_eq!(fixture.gauge(MISCONFIGURED), "0");
}
