//! Servers that mean harm: an answer costs its limit at most, and the message says which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelpie_kube::tenant::{Haste, TenantError};
use tokio::time::Instant;

use crate::bodies::{JSON, Lease, PROTOBUF, json_list, protobuf_leases};
use crate::server::{Server, Wire, after, deadline};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// The error of a lease list from a server that answers `/version` and plays `script` for the rest;
/// with the bytes that were read.
async fn listing<F, S>(script: S) -> (TenantError, u64)
where
    S: Fn(Wire) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let server = Server::start(move |mut wire| {
        let script = script.clone();
        async move {
            if wire.request().await.as_deref() == Some("/version") {
                wire.answer(JSON, b"{}").await;
                wire.request().await;
            }
            script(wire).await;
        }
    })
    .await;
    let mut tenant = server.tenant();
    let probed = tenant.probe(Haste::Routine, deadline()).await;
    probed.version.unwrap();
    let error = probed.leases.unwrap().unwrap_err();
    (error, tenant.take_traffic().bytes)
}

async fn error_of(head: &str, body: impl AsRef<[u8]>) -> String {
    let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
    let answer: Arc<[u8]> = [head.as_bytes(), body.as_ref()].concat().into();
    let (error, _) = listing(move |mut wire| {
        let answer = Arc::clone(&answer);
        async move {
            wire.send(&answer).await;
            wire.stall().await;
        }
    })
    .await;
    assert!(!error.is_transient());
    error.to_string()
}

/// Sends `head` and then `piece` for as long as the client takes it; counts what it sent.
async fn endless(head: String, piece: Vec<u8>) -> (TenantError, u64, u64) {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let piece: Arc<[u8]> = piece.into();
    let (error, read) = listing(move |mut wire| {
        let (head, piece, sent) = (head.clone(), Arc::clone(&piece), Arc::clone(&counted));
        async move {
            wire.send(head.as_bytes()).await;
            while wire.send(&piece).await {
                sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        }
    })
    .await;
    (error, read, sent.load(Ordering::SeqCst))
}

fn head(content_type: &str, more: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{more}\r\n")
}

#[tokio::test]
async fn a_body_that_declares_a_gigabyte_is_not_read() {
    let more = "Content-Length: 1073741824\r\n";
    let (error, read, _) = endless(head(JSON, more), vec![b' '; 65_536]).await;
    let expected = "the API server's answer is too large: its size in bytes is more than 33554432";
    assert_eq!(error.to_string(), expected);
    assert_eq!(read, 2, "only /version was read");
}

#[tokio::test]
async fn a_body_without_end_is_read_to_its_limit() {
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
    let (error, read, sent) = endless(head(JSON, CHUNKED), chunk).await;
    let expected = "the size of the list in bytes is more than 33554432";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 33_554_432 + 2 * 65_536, "{read}");
    assert!(sent < 40_000_000, "{sent}");
}

#[tokio::test]
async fn a_million_leases_end_at_twenty_thousand() {
    let lease = Lease::named("n").json();
    let begin = r#"{"kind":"LeaseList","items":["#;
    let first = format!("{}{:x}\r\n{begin}\r\n", head(JSON, CHUNKED), begin.len());
    let hundred = vec![lease; 100].join(",") + ",";
    let chunk = format!("{:x}\r\n{hundred}\r\n", hundred.len());
    let (error, read, _) = endless(first, chunk.into_bytes()).await;
    let expected = "the number of items is more than 20000";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 4_000_000, "{read}");
}

#[tokio::test]
async fn an_item_without_end_is_read_to_its_limit() {
    let begin = r#"{"kind":"LeaseList","items":[{"a":""#;
    let first = format!("{}{:x}\r\n{begin}\r\n", head(JSON, CHUNKED), begin.len());
    let chunk = [b"1000\r\n".to_vec(), vec![b'x'; 0x1000], b"\r\n".to_vec()].concat();
    let (error, read, _) = endless(first, chunk).await;
    let expected = "the size of one item in bytes is more than 65536";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 100_000, "{read}");
}

#[tokio::test]
async fn nesting_without_end_is_no_matter() {
    let length = |body: &str| format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", body.len());
    // Beside the items, where nobody looks, and never closed.
    let beside = format!(r#"{{"kind":"LeaseList","x":{}"#, "[".repeat(100_000));
    let error = error_of(&length(&beside), &beside).await;
    assert!(error.ends_with("the list ends too early"), "{error}");
    let within = json_list(&[format!(
        r#"{{"metadata":{{"name":{}"x"{}}}}}"#,
        "[".repeat(30_000),
        "]".repeat(30_000)
    )]);
    let error = error_of(&length(&within), &within).await;
    assert!(error.contains("cannot be read: item 0: "), "{error}");
    let metadata = format!(r#"{{"metadata":{}"#, "[".repeat(60_000));
    let error = error_of(&length(&metadata), &metadata).await;
    assert!(error.ends_with("the list ends too early"), "{error}");
}

#[tokio::test]
async fn what_is_no_list_is_told_by_its_content_type() {
    let html = "Content-Type: text/html\r\nContent-Length: 6\r\n";
    let error = error_of(html, "<html>").await;
    assert!(
        error.contains("has content type \"text/html\": expected"),
        "{error}"
    );
    let error = error_of("Content-Length: 2\r\n", "{}").await;
    assert!(error.contains("has content type \"\""), "{error}");
    let gzip =
        format!("Content-Type: {PROTOBUF}\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n");
    let error = error_of(&gzip, b"\x1f\x8b\x08\x00").await;
    assert!(error.contains("does not begin as protobuf"), "{error}");
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let error = error_of(&format!("X: {}\r\n", "x".repeat(100_000)), "").await;
    assert!(error.contains("headers are larger than 8 KiB"), "{error}");
}

#[tokio::test]
async fn a_list_that_breaks_off_is_no_list() {
    let body = protobuf_leases(&[Lease::named("a"), Lease::named("b")]);
    let (error, _) = listing(move |mut wire| {
        let body = body.clone();
        async move {
            let more = format!("Content-Length: {}\r\n", body.len());
            wire.send(head(PROTOBUF, &more).as_bytes()).await;
            wire.send(&body[..body.len() - 1]).await;
        }
    })
    .await;
    assert!(matches!(error, TenantError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn a_drip_ends_at_the_deadline() {
    let server = Server::start(async |mut wire| {
        wire.request().await;
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            .await;
        while wire.send(b"x").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let begun = Instant::now();
    let error = server.tenant().version(after(400)).await.unwrap_err();
    assert!(matches!(error, TenantError::TimedOut), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_refusal_that_drips_is_a_refusal() {
    let server = Server::start(async |mut wire| {
        wire.request().await;
        wire.send(b"HTTP/1.1 429 X\r\nContent-Length: 60000\r\n\r\n")
            .await;
        while wire.send(b"x").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let error = server.tenant().version(deadline()).await.unwrap_err();
    assert!(
        matches!(error, TenantError::Throttled { retry_after: None }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_version_may_be_anything_small() {
    for length in [0, 60_000, 70_000] {
        let server = Server::start(move |mut wire| async move {
            wire.request().await;
            let head = format!("HTTP/1.1 203 X\r\nContent-Length: {length}\r\n\r\n");
            wire.send(head.as_bytes()).await;
            wire.send(&vec![b'x'; length]).await;
        })
        .await;
        match server.tenant().version(deadline()).await {
            Ok(()) => assert!(length < 65_536, "{length}"),
            Err(TenantError::TooLarge { limit: 65_536, .. }) => assert_eq!(length, 70_000),
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(server.accepted(), 1);
    }
}
