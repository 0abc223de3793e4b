//! Requests to servers whose connections die, stall or are slow.

use std::time::Duration;

use kelpie_kube::tenant::{ConnectionReuse, FailureKind, RequestStats, Tenant, TenantError};
use tokio::time::{Instant, sleep};

use crate::bodies::{JSON, LeaseFixture, PROTOBUF, json_leases, nodes, protobuf_leases, rules};
use crate::scripted_server::{ScriptedApiServer, ServerConnection, after, deadline, tenant_at};

const FAILURE: &[u8] = b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n";

fn one_lease() -> String {
    json_leases(&[LeaseFixture::named("a")])
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Starts a server that responds with one lease.
fn healthy_server() -> ScriptedApiServer {
    ScriptedApiServer::in_process(async |mut connection| connection.serve(&one_lease()).await)
}

/// Starts a server and a tenant with a kept connection to it. After the first list, `kept` runs on
/// the kept connection and `later` on all others.
async fn kept_connection<F, L>(
    kept: impl Fn(ServerConnection) -> F + Copy + Send + Sync + 'static,
    later: impl Fn(ServerConnection) -> L + Copy + Send + Sync + 'static,
) -> (ScriptedApiServer, Tenant)
where
    F: Future<Output = ()> + Send + 'static,
    L: Future<Output = ()> + Send + 'static,
{
    let server = ScriptedApiServer::in_process(move |mut connection| async move {
        if connection.number > 0 {
            return later(connection).await;
        }
        connection.request().await;
        connection.respond(JSON, one_lease().as_bytes()).await;
        kept(connection).await;
    });
    let tenant = server.tenant();
    tenant.leases(deadline()).await.unwrap();
    tenant.take_stats();
    (server, tenant)
}

async fn healthy(mut connection: ServerConnection) {
    connection.serve(&one_lease()).await;
}

async fn stalled(mut connection: ServerConnection) {
    connection.stall().await;
}

/// Closes the connection after the next request.
async fn dying(mut connection: ServerConnection) {
    connection.request().await;
}

/// Responds to the next request with one lease after `delay`.
async fn slow(mut connection: ServerConnection, delay: Duration) {
    connection.request().await;
    sleep(delay).await;
    connection.respond(JSON, one_lease().as_bytes()).await;
    connection.stall().await;
}

/// Lists the leases, and returns the result and the time that it took.
async fn timed(tenant: &Tenant) -> (Result<usize, TenantError>, Duration) {
    let start = Instant::now();
    let listed = tenant.leases(deadline()).await;
    (listed.map(|listed| listed.leases.len()), start.elapsed())
}

#[tokio::test]
async fn lists_share_one_connection() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let tenant = server.tenant();
    for _ in 0..5 {
        let listed = tenant.leases(deadline()).await.unwrap();
        assert_eq!((listed.leases.len(), listed.version), (1, Some(7)));
        assert_eq!(listed.latency(), listed.end - listed.start);
    }
    assert_eq!(server.accepted(), 1);
    let expected = RequestStats {
        statuses: vec![200; 5],
        unanswered: 0,
        connections: 1,
        bytes: 5 * one_lease().len() as u64,
    };
    assert_eq!(tenant.take_stats(), expected);
    assert_eq!(tenant.take_stats(), RequestStats::default());
}

#[tokio::test(start_paused = true)]
async fn nodes_use_connection_of_leases() {
    let [(_, body), _] = nodes(2, &[]);
    let body: &'static [u8] = body.leak();
    let server = ScriptedApiServer::in_process(move |mut connection| async move {
        while let Some(path) = connection.request().await {
            let leases = one_lease();
            let is_nodes = path == "/api/v1/nodes";
            let body = if is_nodes { body } else { leases.as_bytes() };
            connection.respond(JSON, body).await;
        }
    });
    for (reuse, connections) in [
        (ConnectionReuse::Keep, 1),
        (ConnectionReuse::FreshEachRound, 3),
    ] {
        let tenant = server.tenant_with(reuse);
        for _ in 0..3 {
            tenant.leases(deadline()).await.unwrap();
            assert_eq!(
                tenant
                    .nodes(&rules(), deadline())
                    .await
                    .unwrap()
                    .items
                    .finish(None)
                    .len(),
                2
            );
        }
        assert_eq!(tenant.take_stats().connections, connections, "{reuse:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn version_opens_connection_of_its_own() {
    let server = healthy_server();
    let tenant = server.tenant();
    for round in 1..4 {
        tenant.leases(deadline()).await.unwrap();
        tenant.version(deadline()).await.unwrap();
        // One for all lists, and one for each version.
        assert_eq!(server.accepted(), 1 + round);
    }
}

#[tokio::test(start_paused = true)]
async fn connection_is_renewed_after_five_minutes() {
    let server = healthy_server();
    let tenant = server.tenant();
    for (wait, expected) in [(0, 1), (299, 1), (2, 2), (10, 2)] {
        sleep(Duration::from_secs(wait)).await;
        tenant.leases(deadline()).await.unwrap();
        assert_eq!(server.accepted(), expected, "after {wait} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_have_expected_headers() {
    let server = ScriptedApiServer::in_process(async |mut connection| {
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
    });
    let listed = server.tenant().leases(deadline()).await.unwrap();
    assert!(listed.leases.is_empty());
    assert_eq!(listed.version, Some(7));
}

#[tokio::test]
async fn dead_connection_is_replaced_at_once() {
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
    let tenant = server.tenant();
    for list in 0..7 {
        tenant.leases(deadline()).await.unwrap();
        assert_eq!(server.accepted(), 1 + list / 2);
    }
    assert_eq!(tenant.take_stats().unanswered, 3);
}

#[tokio::test(start_paused = true)]
async fn failure_on_kept_connection_is_repeated() {
    let failing = async |mut connection: ServerConnection| {
        while connection.request().await.is_some() && connection.send(FAILURE).await {}
    };
    let (server, tenant) = kept_connection(failing, healthy).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!(listed.unwrap(), 1);
    assert_eq!(took, Duration::ZERO);
    assert_eq!(tenant.take_stats().statuses, [500, 200]);
    // The connection that failed is not used again.
    assert_eq!(timed(&tenant).await.0.unwrap(), 1);
    assert_eq!(tenant.take_stats().statuses, [200]);
    assert_eq!(server.accepted(), 2);
}

#[tokio::test(start_paused = true)]
async fn failure_on_new_connection_is_final() {
    let server = ScriptedApiServer::in_process(dying);
    let tenant = server.tenant();
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert!(matches!(error, TenantError::NoResponse(_)), "{error:?}");
    assert_eq!(error.failure(), FailureKind::Down);
    assert_eq!(server.accepted(), 1);
    assert_eq!(tenant.take_stats().unanswered, 1);
}

#[tokio::test(start_paused = true)]
async fn both_connections_failing_is_final() {
    let (server, tenant) = kept_connection(dying, dying).await;
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert!(matches!(error, TenantError::NoResponse(_)), "{error:?}");
    assert_eq!(server.accepted(), 2);
    assert_eq!(tenant.take_stats().unanswered, 2);
}

#[tokio::test]
async fn stopped_server_is_down() {
    let server =
        ScriptedApiServer::start(async |mut connection| connection.serve(&one_lease()).await).await;
    let tenant = server.tenant();
    tenant.leases(deadline()).await.unwrap();
    drop(server);
    for _ in 0..2 {
        let error = tenant.leases(deadline()).await.unwrap_err();
        assert!(error.to_string().ends_with("connection refused"), "{error}");
        assert_eq!(error.failure(), FailureKind::Down);
    }
}

#[tokio::test]
async fn cut_handshake_is_down() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cutting = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let tenant = tenant_at(&format!("https://{address}"));
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert_eq!(error.failure(), FailureKind::Down, "{error}");
    cutting.abort();
}

#[tokio::test(start_paused = true)]
async fn only_failures_open_new_connections() {
    use FailureKind::{Transient, Unclear};
    for (status, more, failure, text) in [
        ("401", "", Transient, "unknown or have expired"),
        ("403", "", Transient, "lack the permission"),
        (
            "429",
            "Retry-After: 7\r\n",
            Transient,
            "throttles requests (429); retry after 7 s",
        ),
        (
            "429",
            "Retry-After: soon\r\n",
            Transient,
            "throttles requests (429)",
        ),
        ("500", "", Unclear, "status 500"),
        ("503", "Retry-After: 7\r\n", Unclear, "status 503"),
        ("404", "", Unclear, "status 404"),
        (
            "302",
            "Location: https://elsewhere/\r\n",
            Unclear,
            "redirects (302)",
        ),
    ] {
        let server = ScriptedApiServer::in_process(move |mut connection| async move {
            let response = format!("HTTP/1.1 {status} X\r\n{more}Content-Length: 3\r\n\r\nno\n");
            while connection.request().await.is_some() && connection.send(response.as_bytes()).await
            {
            }
        });
        let tenant = server.tenant();
        for _ in 0..2 {
            let error = tenant.leases(deadline()).await.unwrap_err();
            assert_eq!(error.failure(), failure, "{status}");
            assert_eq!(error.is_denied(), ["401", "403"].contains(&status));
            assert_eq!(error.status().unwrap().to_string(), status);
            assert!(error.to_string().contains(text), "{error}");
        }
        // The redirect (302) was not followed either.
        let connections = if failure == Transient { 1 } else { 2 };
        assert_eq!(server.accepted(), connections, "{status}");
        assert_eq!(tenant.take_stats().statuses.len(), 2, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn overlapping_lists_keep_one_connection() {
    // The first connection is the slower one, so its list ends last.
    let server = ScriptedApiServer::in_process(|mut connection| async move {
        let delay = [900, 500, 100].get(connection.number).copied();
        while connection.request().await.is_some() {
            sleep(millis(delay.unwrap_or_default())).await;
            connection.respond(JSON, one_lease().as_bytes()).await;
        }
    });
    let tenant = server.tenant();
    let start = Instant::now();
    let list = async |after| {
        sleep(millis(after)).await;
        let listed = tenant.leases(deadline()).await.unwrap();
        listed.end - start
    };
    let ends = tokio::join!(list(0), list(1), list(2));
    assert_eq!(ends, (millis(900), millis(501), millis(102)));
    assert_eq!(server.accepted(), 3);
    // The connection of the newest list is kept, and it is the fast one.
    let (listed, took) = timed(&tenant).await;
    assert_eq!(listed.unwrap(), 1);
    assert_eq!(took, millis(100));
    assert_eq!(server.accepted(), 3);
}

#[tokio::test(start_paused = true)]
async fn new_connection_overtakes_silent_one() {
    let (server, tenant) = kept_connection(stalled, healthy).await;
    let start = Instant::now();
    let listed = tenant.leases(deadline()).await.unwrap();
    assert_eq!(start.elapsed(), millis(300));
    // The times are those of the successful request.
    assert_eq!(listed.start, start + millis(300));
    assert_eq!(listed.latency(), Duration::ZERO);
    tenant.leases(deadline()).await.unwrap();
    assert_eq!(server.accepted(), 2);
}

#[tokio::test(start_paused = true)]
async fn arriving_body_is_not_overtaken() {
    let trickling = async |mut connection: ServerConnection| {
        connection.request().await;
        let body = one_lease();
        let length = body.len();
        let head = format!("Content-Type: {JSON}\r\nContent-Length: {length}\r\n\r\n");
        connection
            .send(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes())
            .await;
        for part in body.as_bytes().chunks(length.div_ceil(5)) {
            sleep(millis(250)).await;
            connection.send(part).await;
        }
        connection.stall().await;
    };
    let (server, tenant) = kept_connection(trickling, healthy).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!(listed.unwrap(), 1);
    assert_eq!(took, millis(5 * 250));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(start_paused = true)]
async fn stopped_body_is_overtaken() {
    let stopping = async |mut connection: ServerConnection| {
        connection.request().await;
        connection.send(b"HTTP/1.1 200 OK\r\n").await;
        connection
            .send(b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            .await;
        connection.stall().await;
    };
    let (_server, tenant) = kept_connection(stopping, healthy).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!(listed.unwrap(), 1);
    assert_eq!(took, millis(300));
}

#[tokio::test(start_paused = true)]
async fn slow_new_connection_is_not_raced() {
    let server = ScriptedApiServer::in_process(|connection| slow(connection, millis(3_000)));
    let (listed, took) = timed(&server.tenant()).await;
    assert_eq!(listed.unwrap(), 1);
    assert_eq!(took, millis(3_000));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(start_paused = true)]
async fn race_survives_failure_of_either_connection() {
    let slow_then_dying = async |mut connection: ServerConnection| {
        connection.request().await;
        sleep(millis(500)).await;
    };
    // The kept connection dies while the new one is still due.
    let (_server, tenant) =
        kept_connection(slow_then_dying, |connection| slow(connection, millis(400))).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!((listed.unwrap(), took), (1, millis(700)));

    // The new connection fails, and the kept one was only slow.
    let failing = async |mut connection: ServerConnection| {
        connection.request().await;
        connection.send(FAILURE).await;
    };
    let (_server, tenant) =
        kept_connection(|connection| slow(connection, millis(600)), failing).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!((listed.unwrap(), took), (1, millis(600)));
    let (_server, tenant) =
        kept_connection(|connection| slow(connection, millis(600)), dying).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!((listed.unwrap(), took), (1, millis(600)));

    // Both fail, and the failure of the new connection counts.
    let (_server, tenant) = kept_connection(stalled, failing).await;
    let (listed, took) = timed(&tenant).await;
    assert_eq!(listed.unwrap_err().status(), Some(500));
    assert_eq!(took, millis(2_000));
}

#[tokio::test(start_paused = true)]
async fn node_list_on_stalled_connection_costs_two_seconds() {
    let (server, tenant) = kept_connection(stalled, stalled).await;
    let start = Instant::now();
    let error = tenant.nodes(&rules(), after(5_000)).await.unwrap_err();
    assert!(matches!(error, TenantError::TimedOut), "{error:?}");
    assert_eq!(start.elapsed(), millis(5_000));
    assert_eq!(server.accepted(), 2);
    assert_eq!(tenant.take_stats().unanswered, 2);
}

#[tokio::test(start_paused = true)]
async fn deadline_applies_to_all_attempts() {
    let (_server, tenant) = kept_connection(stalled, stalled).await;
    for limit in [400, 400, 3_000] {
        let start = Instant::now();
        let error = tenant.leases(after(limit)).await.unwrap_err();
        assert!(matches!(error, TenantError::TimedOut), "{error:?}");
        assert_eq!(error.failure(), FailureKind::Unclear);
        assert_eq!(start.elapsed(), millis(limit));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_request_closes_its_connection() {
    let server = ScriptedApiServer::in_process(|connection| slow(connection, millis(500)));
    let tenant = server.tenant();
    let listing = tokio::time::timeout(millis(100), tenant.leases(deadline()));
    assert!(listing.await.is_err());
    let (listed, took) = timed(&tenant).await;
    assert_eq!((listed.unwrap(), took), (1, millis(500)));
    assert_eq!(server.accepted(), 2);
}
