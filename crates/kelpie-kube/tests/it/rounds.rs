//! Which connection decides: rounds against servers whose connections die, stall or are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_kube::tenant::{Haste, Keeping, TenantError, Traffic};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bodies::{JSON, Lease, PROTOBUF, json_leases, protobuf_leases};
use crate::server::{Server, after, deadline};

fn one_lease() -> String {
    json_leases(&[Lease::named("a")])
}

#[tokio::test]
async fn rounds_share_one_connection() {
    let server = Server::start(async |mut wire| wire.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    for _ in 0..5 {
        let probed = tenant.probe(Haste::Routine, deadline()).await;
        probed.version.unwrap();
        let listed = probed.leases.unwrap().unwrap();
        assert_eq!(listed.leases.len(), 1);
        assert!(listed.start <= listed.end);
        tenant.version(deadline()).await.unwrap();
    }
    assert_eq!(server.accepted(), 1);
    let bytes = 5 * (one_lease().len() as u64 + 2) + 5 * 2;
    let expected = Traffic {
        statuses: vec![200; 15],
        unanswered: 0,
        connections: 1,
        bytes,
    };
    assert_eq!(tenant.take_traffic(), expected);
    assert_eq!(tenant.take_traffic(), Traffic::default());
}

#[tokio::test]
async fn with_fresh_connections_each_round_makes_its_own() {
    let server = Server::start(async |mut wire| wire.serve(&one_lease()).await).await;
    let mut tenant = server.tenant_with(Keeping::FreshEachRound);
    for round in 1..4 {
        let probed = tenant.probe(Haste::Routine, deadline()).await;
        assert!(probed.leases.unwrap().is_ok());
        assert_eq!(server.accepted(), round);
    }
}

#[tokio::test]
async fn a_connection_of_five_minutes_is_renewed() {
    let server = Server::start(async |mut wire| wire.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    for (wait, expected) in [(0, 1), (299, 1), (2, 2), (10, 2)] {
        // Only here: with real sockets a paused clock would run ahead of them.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(wait)).await;
        tokio::time::resume();
        tenant.version(deadline()).await.unwrap();
        assert_eq!(server.accepted(), expected, "after {wait} s more");
    }
}

#[tokio::test]
async fn requests_carry_the_token_and_both_encodings_and_ask_for_no_cache() {
    let server = Server::start(async |mut wire| {
        while let Some(head) = wire.head().await {
            let head = head.to_lowercase();
            let expected = "accept: application/vnd.kubernetes.protobuf, application/json\r\n";
            assert!(head.contains(expected), "{head}");
            assert!(head.contains("authorization: bearer s3cr3t\r\n"), "{head}");
            assert!(head.contains("user-agent: kelpie/"), "{head}");
            assert!(
                !head.contains("accept-encoding") && !head.contains('?'),
                "{head}"
            );
            wire.answer(PROTOBUF, &protobuf_leases(&[])).await;
        }
    })
    .await;
    let probed = server.tenant().probe(Haste::Routine, deadline()).await;
    assert!(probed.leases.unwrap().unwrap().leases.is_empty());
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced_within_the_round() {
    // Each connection answers two requests, then breaks off within the third answer.
    let server = Server::start(async |mut wire| {
        for _ in 0..2 {
            if wire.request().await.is_none() {
                return;
            }
            wire.answer(JSON, one_lease().as_bytes()).await;
        }
        wire.request().await;
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Le").await;
    })
    .await;
    let mut tenant = server.tenant();
    for round in 1..5 {
        let probed = tenant.probe(Haste::Routine, deadline()).await;
        probed.version.unwrap();
        assert!(probed.leases.unwrap().is_ok());
        assert_eq!(server.accepted(), round);
    }
    assert_eq!(tenant.take_traffic().unanswered, 3);
}

#[tokio::test]
async fn a_kept_connection_that_stalls_costs_two_seconds_and_decides_nothing() {
    // The first connection answers once and then never again.
    let server = Server::start(async |mut wire| {
        if wire.number == 0 {
            wire.request().await;
            wire.answer(JSON, b"{}").await;
            return wire.stall().await;
        }
        wire.serve(&one_lease()).await;
    })
    .await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    let begun = Instant::now();
    let probed = tenant.probe(Haste::Routine, deadline()).await;
    let took = begun.elapsed();
    probed.version.unwrap();
    assert!(probed.leases.unwrap().is_ok());
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(10),
        "{took:?}"
    );
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn an_old_connection_to_a_server_that_is_ill_decides_nothing() {
    for haste in [Haste::Routine, Haste::Urgent] {
        // The first connection answers well once, and with 500 from then on.
        let server = Server::start(async |mut wire| {
            if wire.number == 0 {
                wire.request().await;
                wire.answer(JSON, b"{}").await;
                let ill = b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n";
                while wire.request().await.is_some() && wire.send(ill).await {}
                return;
            }
            wire.serve(&one_lease()).await;
        })
        .await;
        let mut tenant = server.tenant();
        tenant.version(deadline()).await.unwrap();
        let probed = tenant.probe(haste, deadline()).await;
        probed.version.unwrap();
        assert!(probed.leases.unwrap().is_ok(), "{haste:?}");
        assert!(tenant.take_traffic().statuses.contains(&500), "{haste:?}");
    }
}

#[tokio::test]
async fn a_failure_on_a_fresh_connection_counts_and_is_not_repeated() {
    let server = Server::start(async |mut wire| {
        wire.request().await;
    })
    .await;
    let mut tenant = server.tenant();
    let probed = tenant.probe(Haste::Routine, deadline()).await;
    assert!(matches!(probed.version, Err(TenantError::Broken(_))));
    assert!(probed.leases.is_none());
    assert_eq!(server.accepted(), 1);
    assert_eq!(tenant.take_traffic().unanswered, 1);
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_failure_though_a_connection_was_kept() {
    let server = Server::start(async |mut wire| wire.serve(&one_lease()).await).await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    drop(server);
    let error = tenant.version(deadline()).await.unwrap_err();
    assert!(matches!(error, TenantError::Connect(_)), "{error:?}");
    assert!(error.to_string().ends_with("connection refused"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn statuses_are_told_apart_and_only_a_failure_asks_for_a_fresh_connection() {
    for (status, more, is_transient, text) in [
        ("401", "", true, "unknown or have expired"),
        ("403", "", true, "lack the right"),
        (
            "429",
            "Retry-After: 7\r\n",
            true,
            "come back later (429), in 7 s",
        ),
        (
            "429",
            "Retry-After: soon\r\n",
            true,
            "come back later (429)",
        ),
        ("500", "", false, "answered 500"),
        ("503", "Retry-After: 7\r\n", false, "answered 503"),
        ("404", "", false, "answered 404"),
        (
            "302",
            "Location: https://elsewhere/\r\n",
            false,
            "redirects (302)",
        ),
    ] {
        let server = Server::start(move |mut wire| async move {
            let answer = format!("HTTP/1.1 {status} X\r\n{more}Content-Length: 3\r\n\r\nno\n");
            while wire.request().await.is_some() && wire.send(answer.as_bytes()).await {}
        })
        .await;
        let mut tenant = server.tenant();
        for _ in 0..2 {
            let probed = tenant.probe(Haste::Routine, deadline()).await;
            let error = probed.version.unwrap_err();
            assert_eq!(error.is_transient(), is_transient, "{status}");
            assert_eq!(error.status().unwrap().to_string(), status);
            assert!(error.to_string().contains(text), "{error}");
            assert!(probed.leases.is_none());
        }
        // 302 too: nobody went elsewhere.
        let connections = if is_transient { 1 } else { 2 };
        assert_eq!(server.accepted(), connections, "{status}");
    }
}

#[tokio::test]
async fn in_a_hurry_both_questions_are_under_way_at_once() {
    // Nobody gets an answer before both have asked.
    let asked = Arc::new(Semaphore::new(0));
    let server = Server::start(move |mut wire| {
        let asked = Arc::clone(&asked);
        async move {
            let path = wire.request().await.unwrap();
            asked.add_permits(1);
            asked.acquire_many(2).await.unwrap().forget();
            asked.add_permits(2);
            let body = if path == "/version" {
                "{}".into()
            } else {
                one_lease()
            };
            wire.answer(JSON, body.as_bytes()).await;
            wire.serve(&one_lease()).await;
        }
    })
    .await;
    let mut tenant = server.tenant();
    let probed = tenant.probe(Haste::Urgent, deadline()).await;
    probed.version.unwrap();
    probed.leases.unwrap().unwrap();
    let accepted = server.accepted();
    assert!(accepted >= 2);
    // One of them is kept.
    tenant.version(deadline()).await.unwrap();
    assert_eq!(server.accepted(), accepted);
}

#[tokio::test]
async fn in_a_hurry_a_fresh_connection_overtakes_one_that_stalls() {
    // The first connection answers once and then stalls; the second one, for the version, says
    // nothing at all.
    let server = Server::start(async |mut wire| {
        if wire.number == 0 {
            wire.request().await;
            wire.answer(JSON, b"{}").await;
        }
        if wire.number < 2 {
            return wire.stall().await;
        }
        wire.serve(&one_lease()).await;
    })
    .await;
    let mut tenant = server.tenant();
    tenant.version(deadline()).await.unwrap();
    let begun = Instant::now();
    let probed = tenant.probe(Haste::Urgent, deadline()).await;
    let took = begun.elapsed();
    probed.version.unwrap();
    let listed = probed.leases.unwrap().unwrap();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(10),
        "{took:?}"
    );
    // The list is dated by the request that was answered.
    assert!(listed.start >= begun + Duration::from_millis(300));
}

#[tokio::test]
async fn in_a_hurry_a_failure_of_one_waits_for_the_other() {
    // A stalled connection that breaks while the fresh one is still being answered.
    let lists = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |mut wire| {
        let lists = Arc::clone(&lists);
        async move {
            let path = wire.request().await.unwrap();
            if path == "/version" {
                wire.answer(JSON, b"{}").await;
                return;
            }
            if lists.fetch_add(1, Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
            wire.answer(JSON, one_lease().as_bytes()).await;
            wire.stall().await;
        }
    })
    .await;
    let probed = server.tenant().probe(Haste::Urgent, deadline()).await;
    assert_eq!(probed.leases.unwrap().unwrap().leases.len(), 1);
}

#[tokio::test]
async fn in_a_hurry_a_failure_before_the_race_counts_at_once() {
    let server = Server::start(async |mut wire| {
        wire.request().await;
    })
    .await;
    let begun = Instant::now();
    let probed = server.tenant().probe(Haste::Urgent, deadline()).await;
    assert!(matches!(probed.version, Err(TenantError::Broken(_))));
    assert!(matches!(probed.leases, Some(Err(TenantError::Broken(_)))));
    // On a machine so busy that this takes longer, there may have been a race.
    if begun.elapsed() < Duration::from_millis(300) {
        assert_eq!(server.accepted(), 2);
    }
}

#[tokio::test]
async fn one_deadline_holds_for_the_whole_round() {
    let server = Server::start(async |mut wire| wire.stall().await).await;
    for haste in [Haste::Routine, Haste::Urgent] {
        let begun = Instant::now();
        let probed = server.tenant().probe(haste, after(400)).await;
        assert!(matches!(probed.version, Err(TenantError::TimedOut)));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
