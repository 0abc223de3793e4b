//! Routine requests are limited, fencing is not.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::ResourceRef;
use kelpie_kube::seed::{Note, NoteKind, ObjectRef, TargetError};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Server, seed_at};

const VERSION: &str = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "",
    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;

#[tokio::test]
async fn routine_requests_wait_for_their_turn_and_never_fail() {
    let server = Server::new(200, VERSION).await;
    let seed = server.seed(20.0, 2).await;
    let begin = Instant::now();

    let answers = join_all((0..8).map(|_| seed.version())).await;

    // Two at once, six more at twenty per second.
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(290), "{took:?}");
    for answer in answers {
        assert_eq!(answer.unwrap(), "v1.36.4");
    }
    assert_eq!(seed.answers(), [(200, 8)].into());
    let requests = server.requests();
    assert_eq!(requests.len(), 8);
    assert_eq!(requests[0], "kelpie-test: GET /version HTTP/1.1");
}

#[tokio::test]
async fn fencing_does_not_queue_behind_routine_requests() {
    let object = r#"{"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2}}"#;
    let server = Server::new(200, object).await;
    let seed = server.seed(0.001, 1).await;
    // The only token is gone, and somebody waits for the next one.
    let _ = seed.version().await;
    let waiting = tokio::spawn({
        let seed = seed.clone();
        async move { seed.version().await }
    });
    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };

    let targets = seed.targets();
    let reads = join_all((0..50).map(|_| targets.read("ns", &target)));
    let sights = timeout(Duration::from_secs(10), reads).await.unwrap();

    assert!(sights.into_iter().all(|sight| sight.is_ok()));
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn publishing_events_never_waits_even_if_nobody_posts_them() {
    let server = Server::new(500, "").await;
    let events = server.seed(1.0, 1).await.events("prober", "host-1");
    for number in 0..5000 {
        events.publish(Note {
            about: ObjectRef::default(),
            kind: NoteKind::Normal,
            reason: "Fenced",
            message: number.to_string(),
            action: "ScaleDown",
        });
    }
    assert_eq!(events.dropped(), 5000 - 4096);
    assert!(server.requests().is_empty());
}

fn note(reason: &'static str) -> Note {
    Note {
        about: ObjectRef::default(),
        kind: NoteKind::Normal,
        reason,
        message: String::new(),
        action: reason,
    }
}

#[tokio::test]
async fn an_event_that_waits_long_for_its_turn_does_not_fail() {
    let server = Server::new(200, r#"{"metadata": {"name": "kcm.1"}}"#).await;
    let seed = server.seed(0.05, 1).await;
    let events = seed.events("prober", "host-1");
    let posting = tokio::spawn(events.clone().run(CancellationToken::new()));
    for reason in ["Fencing", "Fenced"] {
        events.publish(note(reason));
    }
    until(|| server.requests().len() == 1).await;

    // The next turn comes after 20 s.
    tokio::time::pause();
    for _ in 0..21 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    until(|| server.requests().len() == 2).await;
    until(|| seed.answers() == [(200, 2)].into()).await;
    assert_eq!((events.failed(), events.refused()), (0, 0));
    posting.abort();
}

#[tokio::test]
async fn a_namespace_is_left_alone_for_a_missing_right_and_not_for_credentials_that_are_refused() {
    let unknown = r#"{"kind": "Status", "status": "Failure", "code": 401, "message": "who?"}"#;
    let denied = r#"{"kind": "Status", "status": "Failure", "code": 403, "message": "no"}"#;
    for (status, body, asked, counts) in [(401, unknown, 2, (2, 0)), (403, denied, 1, (0, 2))] {
        let server = Server::new(status, body).await;
        let events = server.seed(50.0, 50).await.events("weeder", "host-1");
        let posting = tokio::spawn(events.clone().run(CancellationToken::new()));
        for (number, reason) in (1..).zip(["Restarted", "GivenUp"]) {
            events.publish(note(reason));
            until(|| events.failed() + events.refused() == number).await;
        }
        assert_eq!(server.requests().len(), asked, "{status}");
        assert_eq!((events.failed(), events.refused()), counts, "{status}");
        posting.abort();
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_is_counted_as_one_without_an_answer() {
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seed = seed_at(listener.local_addr().unwrap(), 5.0, 10).await;
    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };
    let hurried = seed.targets().within(Duration::from_millis(100));
    let error = hurried.read("ns", &target).await.unwrap_err();
    assert!(matches!(error, TargetError::TimedOut { .. }), "{error}");
    assert_eq!(seed.answers(), [(0, 1)].into());
}

/// Waits until it is so.
async fn until(is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), so).await.unwrap();
}
