//! Servers in the same process, in virtual time.

use std::io;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_kube::WallClock;
use kelpie_kube::kubeconfig::Access;
use kelpie_kube::seed::Seed;
use kelpie_kube::tenant::{Haste, Keeping, Tenant};
use kelpie_net::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use crate::kubeconfig::Kubeconfig;
use crate::server::authority;

const LATENCY: Duration = Duration::from_millis(250);

/// One server, `api.inside:443`, that takes its time for every answer; nobody else is there.
fn network() -> Network {
    Network::inside(|host, port| {
        let found = (host, port) == ("api.inside", 443);
        Box::pin(async move {
            if !found {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (ours, theirs) = duplex(4_096);
            tokio::spawn(serve(theirs));
            Ok(ours)
        })
    })
}

async fn serve(mut stream: DuplexStream) {
    let mut said = Vec::new();
    while stream.read_buf(&mut said).await.unwrap_or(0) > 0 {
        if !said.ends_with(b"\r\n\r\n") {
            continue;
        }
        let request = String::from_utf8(std::mem::take(&mut said)).unwrap();
        sleep(LATENCY).await;
        let body = match request.split(' ').nth(1).unwrap() {
            "/version" => {
                r#"{"major":"1","minor":"36","gitVersion":"v1.36.4","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#
            }
            _ => {
                r#"{"kind":"LeaseList","items":[{"metadata":{"name":"n"},"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}}]}"#
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
async fn a_tenant_is_asked_without_sockets_and_tls_in_virtual_time() {
    let authority = authority().pem();
    let yaml = Kubeconfig::with_token("https://api.inside", &authority).yaml();
    let access = Access::from_kubeconfig(yaml.as_bytes()).unwrap();
    let mut tenant = Tenant::new(access.through(&network()), Keeping::Kept);
    let begun = Instant::now();
    let probed = tenant
        .probe(Haste::Routine, begun + Duration::from_secs(5))
        .await;
    assert_eq!(begun.elapsed(), 2 * LATENCY);
    assert!(probed.version.is_ok());
    assert_eq!(probed.leases.unwrap().unwrap().leases.iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_seed_is_asked_without_sockets_and_its_clock_is_the_simulated_one() {
    let wall = WallClock::new(|| Time::from_micros(7));
    let seed = Seed::inside(&network(), wall, "http://api.inside:443", "t").unwrap();
    let begun = Instant::now();
    assert_eq!(seed.version().await.unwrap(), "v1.36.4");
    assert_eq!(begun.elapsed(), LATENCY);
    assert_eq!(seed.wall_clock().now(), Time::from_micros(7));

    let wall = seed.wall_clock().clone();
    let nobody = Seed::inside(&network(), wall, "http://other:443", "t").unwrap();
    let error = nobody.version().await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}
