//! Hostile servers: a response costs at most its limit, and the message names the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelpie_kube::lists::ListError;
use kelpie_kube::tenant::{FailureKind, TenantError};
use tokio::time::Instant;

use crate::bodies::{JSON, LeaseFixture, PROTOBUF, json_list, protobuf_leases};
use crate::scripted_server::{ScriptedApiServer, ServerConnection, after, deadline};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Lists leases from a server that runs `script` after the first request. Returns the error and the
/// number of bytes that were read.
async fn list_error<F, S>(script: S) -> (TenantError, u64)
where
    S: Fn(ServerConnection) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let server = ScriptedApiServer::start(move |mut connection| {
        let script = script.clone();
        async move {
            connection.request().await;
            script(connection).await;
        }
    })
    .await;
    let tenant = server.tenant();
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert_eq!(server.accepted(), 1, "there is no hidden retry");
    (error, tenant.take_stats().bytes)
}

/// Returns the error of a list with these headers and this body.
async fn response_error(headers: &str, body: impl AsRef<[u8]>) -> String {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    let response: Arc<[u8]> = [head.as_bytes(), body.as_ref()].concat().into();
    let (error, _) = list_error(move |mut connection| {
        let response = Arc::clone(&response);
        async move {
            connection.send(&response).await;
            connection.stall().await;
        }
    })
    .await;
    assert_eq!(error.failure(), FailureKind::Unclear);
    error.to_string()
}

/// Sends `head` and then `chunk` for as long as the client reads. Returns the error, the number of
/// bytes that were read and the number of bytes that were sent.
async fn endless_error(head: String, chunk: Vec<u8>) -> (TenantError, u64, u64) {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let chunk: Arc<[u8]> = chunk.into();
    let (error, read) = list_error(move |mut connection| {
        let (head, chunk, sent) = (head.clone(), Arc::clone(&chunk), Arc::clone(&counted));
        async move {
            connection.send(head.as_bytes()).await;
            while connection.send(&chunk).await {
                sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
            }
        }
    })
    .await;
    (error, read, sent.load(Ordering::SeqCst))
}

fn head(content_type: &str, headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{headers}\r\n")
}

#[tokio::test]
async fn oversized_content_length_is_not_read() {
    let headers = "Content-Length: 1073741824\r\n";
    let (error, read, _) = endless_error(head(JSON, headers), vec![b' '; 65_536]).await;
    let expected =
        "the API server's response is too large: its size in bytes is more than 33554432";
    assert_eq!(error.to_string(), expected);
    assert_eq!(read, 0);
}

#[tokio::test]
async fn endless_body_stops_at_limit() {
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
    let (error, read, sent) = endless_error(head(JSON, CHUNKED), chunk).await;
    let expected = "the size of the list in bytes is more than 33554432";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 33_554_432 + 2 * 65_536, "{read}");
    assert!(sent < 40_000_000, "{sent}");
}

#[tokio::test]
async fn endless_items_stop_at_limit() {
    let lease = LeaseFixture::named("n").json();
    let start = r#"{"kind":"LeaseList","items":["#;
    let first = format!("{}{:x}\r\n{start}\r\n", head(JSON, CHUNKED), start.len());
    let hundred = vec![lease; 100].join(",") + ",";
    let chunk = format!("{:x}\r\n{hundred}\r\n", hundred.len());
    let (error, read, _) = endless_error(first, chunk.into_bytes()).await;
    let expected = "the number of items is more than 20000";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 4_000_000, "{read}");
}

#[tokio::test]
async fn endless_item_stops_at_limit() {
    let start = r#"{"kind":"LeaseList","items":[{"a":""#;
    let first = format!("{}{:x}\r\n{start}\r\n", head(JSON, CHUNKED), start.len());
    let chunk = [b"1000\r\n".to_vec(), vec![b'x'; 0x1000], b"\r\n".to_vec()].concat();
    let (error, read, _) = endless_error(first, chunk).await;
    let expected = "the size of the list in bytes is more than 33554432";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(read < 33_554_432 + 2 * 65_536, "{read}");
}

#[tokio::test]
async fn deep_nesting_is_harmless() {
    let length = |body: &str| format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", body.len());
    // In a field that is skipped, and never closed.
    let outside = format!(r#"{{"kind":"LeaseList","x":{}"#, "[".repeat(100_000));
    let error = response_error(&length(&outside), &outside).await;
    assert!(error.ends_with("the list ends too early"), "{error}");
    let inside = json_list(&[format!(
        r#"{{"metadata":{{"name":{}"x"{}}}}}"#,
        "[".repeat(30_000),
        "]".repeat(30_000)
    )]);
    let error = response_error(&length(&inside), &inside).await;
    assert!(error.contains("cannot be decoded: item 0: "), "{error}");
    let metadata = format!(r#"{{"metadata":{}"#, "[".repeat(60_000));
    let error = response_error(&length(&metadata), &metadata).await;
    assert!(error.ends_with("the list ends too early"), "{error}");
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let html = "Content-Type: text/html\r\nContent-Length: 6\r\n";
    let error = response_error(html, "<html>").await;
    assert!(
        error.contains("has content type \"text/html\": expected"),
        "{error}"
    );
    let error = response_error("Content-Length: 2\r\n", "{}").await;
    assert!(error.contains("has content type \"\""), "{error}");
    let gzip =
        format!("Content-Type: {PROTOBUF}\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n");
    let error = response_error(&gzip, b"\x1f\x8b\x08\x00").await;
    assert!(error.contains("is not Kubernetes protobuf"), "{error}");
}

#[tokio::test]
async fn large_headers_are_refused() {
    let error = response_error(&format!("X: {}\r\n", "x".repeat(100_000)), "").await;
    assert!(error.contains("the response head is too large"), "{error}");
}

#[tokio::test]
async fn truncated_list_is_an_error() {
    let body = protobuf_leases(&[LeaseFixture::named("a"), LeaseFixture::named("b")]);
    let (error, _) = list_error(move |mut connection| {
        let body = body.clone();
        async move {
            let headers = format!("Content-Length: {}\r\n", body.len());
            connection.send(head(PROTOBUF, &headers).as_bytes()).await;
            connection.send(&body[..body.len() - 1]).await;
        }
    })
    .await;
    assert!(matches!(error, TenantError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn slow_body_ends_at_deadline() {
    let server = ScriptedApiServer::start(async |mut connection| {
        connection.request().await;
        connection
            .send(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            .await;
        while connection.send(b"x").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let start = Instant::now();
    let error = server.tenant().version(after(400)).await.unwrap_err();
    assert!(matches!(error, TenantError::TimedOut), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn slow_error_body_keeps_its_status() {
    let server = ScriptedApiServer::start(async |mut connection| {
        connection.request().await;
        connection
            .send(b"HTTP/1.1 429 X\r\nContent-Length: 60000\r\n\r\n")
            .await;
        while connection.send(b"x").await {
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
async fn version_body_is_ignored_up_to_limit() {
    for length in [0, 60_000, 70_000] {
        let server = ScriptedApiServer::start(move |mut connection| async move {
            connection.request().await;
            let head = format!("HTTP/1.1 203 X\r\nContent-Length: {length}\r\n\r\n");
            connection.send(head.as_bytes()).await;
            connection.send(&vec![b'x'; length]).await;
        })
        .await;
        match server.tenant().version(deadline()).await {
            Ok(()) => assert!(length < 65_536, "{length}"),
            Err(TenantError::Decode(ListError::TooLarge { limit: 65_536, .. })) => {
                assert_eq!(length, 70_000);
            }
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(server.accepted(), 1);
    }
}
