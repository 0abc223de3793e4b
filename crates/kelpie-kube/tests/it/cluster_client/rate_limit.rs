//! Routine requests are rate limited, fencing is not.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::prober::ResourceRef;
use kelpie_kube::client::ApiError;
use kelpie_kube::events::{DroppedEvents, EventType, NewEvent, ObjectRef};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{FixedServer, client_for};

const VERSION: &str = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "",
    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;

#[tokio::test]
async fn routine_requests_are_delayed_not_failed() {
    let server = FixedServer::new(200, VERSION).await;
    let client = server.client(20.0, 2).await;
    let start = Instant::now();

    let versions = join_all((0..8).map(|_| client.version())).await;

    // Two at once, then six more at twenty per second.
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(290), "{took:?}");
    for version in versions {
        assert_eq!(version.unwrap(), "v1.36.4");
    }
    assert_eq!(client.response_counts(), [(200, 8)].into());
    let requests = server.requests();
    assert_eq!(requests.len(), 8);
    assert_eq!(requests[0], "kelpie-test: GET /version HTTP/1.1");
}

#[tokio::test]
async fn fencing_does_not_queue_behind_routine_requests() {
    let object = r#"{"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2}}"#;
    let server = FixedServer::new(200, object).await;
    let client = server.client(0.001, 1).await;
    // The only token is taken, and another request waits for the next one.
    let _ = client.version().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.version().await }
    });
    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };

    let targets = client.actuators().scale().clone();
    let reads = join_all((0..50).map(|_| targets.read("ns", &target)));
    let results = timeout(Duration::from_secs(10), reads).await.unwrap();

    assert!(results.into_iter().all(|result| result.is_ok()));
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn publishing_events_never_waits() {
    let server = FixedServer::new(500, "").await;
    let events = server.client(1.0, 1).await.events("prober", "host-1");
    for number in 0..5000 {
        events.publish(NewEvent {
            about: ObjectRef::default(),
            kind: EventType::Normal,
            reason: "Fenced",
            message: number.to_string(),
            action: "ScaleDown",
        });
    }
    assert_eq!(events.dropped().dropped, 5000 - 4096);
    assert!(server.requests().is_empty());
}

fn event(reason: &'static str) -> NewEvent {
    NewEvent {
        about: ObjectRef::default(),
        kind: EventType::Normal,
        reason,
        message: String::new(),
        action: reason,
    }
}

#[tokio::test]
async fn delayed_event_does_not_fail() {
    let server = FixedServer::new(200, r#"{"metadata": {"name": "kcm.1"}}"#).await;
    let client = server.client(0.05, 1).await;
    let events = client.events("prober", "host-1");
    let recorder = tokio::spawn(events.clone().run(CancellationToken::new()));
    for reason in ["Fencing", "Fenced"] {
        events.publish(event(reason));
    }
    until(|| server.requests().len() == 1).await;

    // The rate limiter has the next token after 20 s.
    tokio::time::pause();
    for _ in 0..21 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    until(|| server.requests().len() == 2).await;
    until(|| client.response_counts() == [(200, 2)].into()).await;
    assert_eq!(events.dropped(), DroppedEvents::default());
    recorder.abort();
}

#[tokio::test]
async fn only_forbidden_events_exclude_a_namespace() {
    let unauthorized = r#"{"kind": "Status", "status": "Failure", "code": 401, "message": "who?"}"#;
    let forbidden = r#"{"kind": "Status", "status": "Failure", "code": 403, "message": "no"}"#;
    for (status, body, requests, counts) in
        [(401, unauthorized, 2, (2, 0)), (403, forbidden, 1, (0, 2))]
    {
        let server = FixedServer::new(status, body).await;
        let events = server.client(50.0, 50).await.events("weeder", "host-1");
        let recorder = tokio::spawn(events.clone().run(CancellationToken::new()));
        for (number, reason) in (1..).zip(["Restarted", "GivenUp"]) {
            events.publish(event(reason));
            until(|| events.dropped().failed + events.dropped().refused == number).await;
        }
        assert_eq!(server.requests().len(), requests, "{status}");
        let dropped = events.dropped();
        assert_eq!((dropped.failed, dropped.refused), counts, "{status}");
        recorder.abort();
    }
}

#[tokio::test]
async fn cancelled_request_is_counted() {
    // The server accepts connections and never responds.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client_for(listener.local_addr().unwrap(), 5.0, 10).await;
    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };
    let targets = client
        .actuators()
        .scale()
        .with_limit(Duration::from_millis(100));
    let error = targets.read("ns", &target).await.unwrap_err();
    assert_eq!(error.cause(), Some(&ApiError::TimedOut), "{error}");
    assert_eq!(client.response_counts(), [(0, 1)].into());
}

/// Waits until the condition is true.
async fn until(condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), poll).await.unwrap();
}
