//! API servers in the same process, in virtual time.

use std::io;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::tenant::{ConnectionReuse, Tenant, Urgency};
use kelpie_net::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use crate::kubeconfig_builder::KubeconfigBuilder;
use crate::scripted_server::authority;

const LATENCY: Duration = Duration::from_millis(250);

/// A network with one server, `api.inside:443`, which delays every response by [`LATENCY`].
fn network() -> Network {
    Network::in_process(|host, port| {
        let is_known = (host, port) == ("api.inside", 443);
        Box::pin(async move {
            if !is_known {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (client, server) = duplex(4_096);
            tokio::spawn(serve(server));
            Ok(client)
        })
    })
}

async fn serve(mut stream: DuplexStream) {
    let mut received = Vec::new();
    while stream.read_buf(&mut received).await.unwrap_or(0) > 0 {
        if !received.ends_with(b"\r\n\r\n") {
            continue;
        }
        let request = String::from_utf8(std::mem::take(&mut received)).unwrap();
        sleep(LATENCY).await;
        let body = match request.split(' ').nth(1).unwrap() {
            "/version" => {
                r#"{"major":"1","minor":"36","gitVersion":"v1.36.4","gitCommit":"",
                    "gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#
            }
            _ => {
                r#"{"kind":"LeaseList","items":[{"metadata":{"name":"n"},
                    "spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}}]}"#
            }
        };
        assert!(
            request.to_lowercase().contains("authorization: bearer "),
            "{request}"
        );
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn tenant_client_works_in_virtual_time() {
    let authority = authority().pem();
    let yaml = KubeconfigBuilder::with_token("https://api.inside", &authority).yaml();
    let config = TenantConfig::from_kubeconfig(yaml.as_bytes()).unwrap();
    let mut tenant = Tenant::new(config.with_network(&network()), ConnectionReuse::Keep);
    let start = Instant::now();
    let outcome = tenant
        .probe(Urgency::Routine, start + Duration::from_secs(5))
        .await;
    assert_eq!(start.elapsed(), 2 * LATENCY);
    assert!(outcome.version.is_ok());
    assert_eq!(outcome.leases.unwrap().unwrap().leases.iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn cluster_client_uses_simulated_clock() {
    let clock = SystemClock::new(|| Time::from_micros(7));
    let seed = ClusterClient::in_process(&network(), clock, "http://api.inside:443", "t").unwrap();
    let start = Instant::now();
    assert_eq!(seed.version().await.unwrap(), "v1.36.4");
    assert_eq!(start.elapsed(), LATENCY);
    assert_eq!(seed.system_clock().now(), Time::from_micros(7));

    let clock = seed.system_clock().clone();
    let absent = ClusterClient::in_process(&network(), clock, "http://other:443", "t").unwrap();
    let error = absent.version().await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}
