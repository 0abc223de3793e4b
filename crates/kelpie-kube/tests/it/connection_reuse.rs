//! Rounds against servers whose connections die, stall or are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_kube::tenant::{ConnectionReuse, RequestStats, TenantError, Urgency};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bodies::{JSON, LeaseFixture, PROTOBUF, json_leases, protobuf_leases};
use crate::scripted_server::{ScriptedApiServer, after, deadline};

fn one_lease() -> String {
    json_leases(&[LeaseFixture::named("a")])
}

#[tokio::test]
async fn rounds_share_one_connection() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    for _ in 0..5 {
        let outcome = tenant.probe(Urgency::Routine, deadline()).await;
        outcome.version.unwrap();
        let listed = outcome.leases.unwrap().unwrap();
        assert_eq!(listed.leases.len(), 1);
        assert!(listed.start <= listed.end);
        tenant.version(deadline()).await.unwrap();
    }
    assert_eq!(server.accepted(), 1);
    let bytes = 5 * (one_lease().len() as u64 + 2) + 5 * 2;
    let expected = RequestStats {
        statuses: vec![200; 15],
        unanswered: 0,
        connections: 1,
        bytes,
    };
    assert_eq!(tenant.take_stats(), expected);
    assert_eq!(tenant.take_stats(), RequestStats::default());
}

#[tokio::test]
async fn fresh_each_round_opens_new_connections() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let mut tenant = server.tenant_with(ConnectionReuse::FreshEachRound);
    for round in 1..4 {
        let outcome = tenant.probe(Urgency::Routine, deadline()).await;
        assert!(outcome.leases.unwrap().is_ok());
        assert_eq!(server.accepted(), round);
    }
}

#[tokio::test]
async fn connection_is_renewed_after_five_minutes() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    for (wait, expected) in [(0, 1), (299, 1), (2, 2), (10, 2)] {
        // The clock is paused only here: with real sockets a paused clock would run ahead of them.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(wait)).await;
        tokio::time::resume();
        tenant.version(deadline()).await.unwrap();
        assert_eq!(server.accepted(), expected, "after {wait} s more");
    }
}

#[tokio::test]
async fn requests_have_expected_headers() {
    let server = ScriptedApiServer::start(async |mut connection| {
        while let Some(head) = connection.head().await {
            let head = head.to_lowercase();
            let expected = "accept: application/vnd.kubernetes.protobuf, application/json\r\n";
            assert!(head.contains(expected), "{head}");
            assert!(head.contains("authorization: bearer s3cr3t\r\n"), "{head}");
            assert!(head.contains("user-agent: kelpie/"), "{head}");
            assert!(
                !head.contains("accept-encoding") && !head.contains('?'),
                "{head}"
            );
            connection.respond(PROTOBUF, &protobuf_leases(&[])).await;
        }
    })
    .await;
    let outcome = server.tenant().probe(Urgency::Routine, deadline()).await;
    assert!(outcome.leases.unwrap().unwrap().leases.is_empty());
}

#[tokio::test]
async fn dead_connection_is_replaced_within_round() {
    // Each connection serves two requests and breaks within the third response.
    let server = ScriptedApiServer::start(async |mut connection| {
        for _ in 0..2 {
            if connection.request().await.is_none() {
                return;
            }
            connection.respond(JSON, one_lease().as_bytes()).await;
        }
        connection.request().await;
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Le").await;
    })
    .await;
    let mut tenant = server.tenant();
    for round in 1..5 {
        let outcome = tenant.probe(Urgency::Routine, deadline()).await;
        outcome.version.unwrap();
        assert!(outcome.leases.unwrap().is_ok());
        assert_eq!(server.accepted(), round);
    }
    assert_eq!(tenant.take_stats().unanswered, 3);
}

#[tokio::test]
async fn stalled_connection_costs_two_seconds() {
    // The first connection serves one request and then stalls.
    let server = ScriptedApiServer::start(async |mut connection| {
        if connection.number == 0 {
            connection.request().await;
            connection.respond(JSON, b"{}").await;
            return connection.stall().await;
        }
        connection.serve(&one_lease()).await;
    })
    .await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    let start = Instant::now();
    let outcome = tenant.probe(Urgency::Routine, deadline()).await;
    let took = start.elapsed();
    outcome.version.unwrap();
    assert!(outcome.leases.unwrap().is_ok());
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(10),
        "{took:?}"
    );
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn failure_on_old_connection_is_retried() {
    for urgency in [Urgency::Routine, Urgency::Urgent] {
        // The first connection serves one request, and responds with 500 after that.
        let server = ScriptedApiServer::start(async |mut connection| {
            if connection.number == 0 {
                connection.request().await;
                connection.respond(JSON, b"{}").await;
                let failure = b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n";
                while connection.request().await.is_some() && connection.send(failure).await {}
                return;
            }
            connection.serve(&one_lease()).await;
        })
        .await;
        let mut tenant = server.tenant();
        tenant.version(deadline()).await.unwrap();
        let outcome = tenant.probe(urgency, deadline()).await;
        outcome.version.unwrap();
        assert!(outcome.leases.unwrap().is_ok(), "{urgency:?}");
        assert!(tenant.take_stats().statuses.contains(&500), "{urgency:?}");
    }
}

#[tokio::test]
async fn failure_on_new_connection_is_final() {
    let server = ScriptedApiServer::start(async |mut connection| {
        connection.request().await;
    })
    .await;
    let mut tenant = server.tenant();
    let outcome = tenant.probe(Urgency::Routine, deadline()).await;
    assert!(matches!(outcome.version, Err(TenantError::Broken(_))));
    assert!(outcome.leases.is_none());
    assert_eq!(server.accepted(), 1);
    assert_eq!(tenant.take_stats().unanswered, 1);
}

#[tokio::test]
async fn stopped_server_is_a_failure() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    drop(server);
    let error = tenant.version(deadline()).await.unwrap_err();
    assert!(matches!(error, TenantError::Connect(_)), "{error:?}");
    assert!(error.to_string().ends_with("connection refused"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn only_failures_open_new_connections() {
    for (status, more, is_transient, text) in [
        ("401", "", true, "unknown or have expired"),
        ("403", "", true, "lack the permission"),
        (
            "429",
            "Retry-After: 7\r\n",
            true,
            "throttles requests (429); retry after 7 s",
        ),
        (
            "429",
            "Retry-After: soon\r\n",
            true,
            "throttles requests (429)",
        ),
        ("500", "", false, "status 500"),
        ("503", "Retry-After: 7\r\n", false, "status 503"),
        ("404", "", false, "status 404"),
        (
            "302",
            "Location: https://elsewhere/\r\n",
            false,
            "redirects (302)",
        ),
    ] {
        let server = ScriptedApiServer::start(move |mut connection| async move {
            let response = format!("HTTP/1.1 {status} X\r\n{more}Content-Length: 3\r\n\r\nno\n");
            while connection.request().await.is_some() && connection.send(response.as_bytes()).await
            {
            }
        })
        .await;
        let mut tenant = server.tenant();
        for _ in 0..2 {
            let outcome = tenant.probe(Urgency::Routine, deadline()).await;
            let error = outcome.version.unwrap_err();
            assert_eq!(error.is_transient(), is_transient, "{status}");
            assert_eq!(error.status().unwrap().to_string(), status);
            assert!(error.to_string().contains(text), "{error}");
            assert!(outcome.leases.is_none());
        }
        // The redirect (302) was not followed either.
        let connections = if is_transient { 1 } else { 2 };
        assert_eq!(server.accepted(), connections, "{status}");
    }
}

#[tokio::test]
async fn urgent_requests_are_concurrent() {
    // No response is sent before both requests have arrived.
    let arrived = Arc::new(Semaphore::new(0));
    let server = ScriptedApiServer::start(move |mut connection| {
        let arrived = Arc::clone(&arrived);
        async move {
            let path = connection.request().await.unwrap();
            arrived.add_permits(1);
            arrived.acquire_many(2).await.unwrap().forget();
            arrived.add_permits(2);
            let body = if path == "/version" {
                "{}".into()
            } else {
                one_lease()
            };
            connection.respond(JSON, body.as_bytes()).await;
            connection.serve(&one_lease()).await;
        }
    })
    .await;
    let mut tenant = server.tenant();
    let outcome = tenant.probe(Urgency::Urgent, deadline()).await;
    outcome.version.unwrap();
    outcome.leases.unwrap().unwrap();
    let accepted = server.accepted();
    assert!(accepted >= 2);
    // One of the connections is kept.
    tenant.version(deadline()).await.unwrap();
    assert_eq!(server.accepted(), accepted);
}

#[tokio::test]
async fn hedged_request_overtakes_stalled_connection() {
    // The first connection serves one request and then stalls. The second one, for the version,
    // sends nothing at all.
    let server = ScriptedApiServer::start(async |mut connection| {
        if connection.number == 0 {
            connection.request().await;
            connection.respond(JSON, b"{}").await;
        }
        if connection.number < 2 {
            return connection.stall().await;
        }
        connection.serve(&one_lease()).await;
    })
    .await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    let start = Instant::now();
    let outcome = tenant.probe(Urgency::Urgent, deadline()).await;
    let took = start.elapsed();
    outcome.version.unwrap();
    let listed = outcome.leases.unwrap().unwrap();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(10),
        "{took:?}"
    );
    // The start of the list is that of the successful request.
    assert!(listed.start >= start + Duration::from_millis(300));
}

#[tokio::test]
async fn failed_request_waits_for_hedged_one() {
    // The stalled connection breaks while the response to the hedged request is still due.
    let lists = Arc::new(AtomicUsize::new(0));
    let server = ScriptedApiServer::start(move |mut connection| {
        let lists = Arc::clone(&lists);
        async move {
            let path = connection.request().await.unwrap();
            if path == "/version" {
                connection.respond(JSON, b"{}").await;
                return;
            }
            if lists.fetch_add(1, Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
            connection.respond(JSON, one_lease().as_bytes()).await;
            connection.stall().await;
        }
    })
    .await;
    let outcome = server.tenant().probe(Urgency::Urgent, deadline()).await;
    assert_eq!(outcome.leases.unwrap().unwrap().leases.len(), 1);
}

#[tokio::test]
async fn failure_before_hedging_is_final() {
    let server = ScriptedApiServer::start(async |mut connection| {
        connection.request().await;
    })
    .await;
    let start = Instant::now();
    let outcome = server.tenant().probe(Urgency::Urgent, deadline()).await;
    assert!(matches!(outcome.version, Err(TenantError::Broken(_))));
    assert!(matches!(outcome.leases, Some(Err(TenantError::Broken(_)))));
    // On a busy machine this may take longer, and the requests may have been hedged.
    if start.elapsed() < Duration::from_millis(300) {
        assert_eq!(server.accepted(), 2);
    }
}

#[tokio::test]
async fn deadline_applies_to_whole_round() {
    let server = ScriptedApiServer::start(async |mut connection| connection.stall().await).await;
    for urgency in [Urgency::Routine, Urgency::Urgent] {
        let start = Instant::now();
        let outcome = server.tenant().probe(urgency, after(400)).await;
        assert!(matches!(outcome.version, Err(TenantError::TimedOut)));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
