//! API servers in the same process, in virtual time.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use kelpie_core::Time;
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::resources::KubeconfigSecret;
use kelpie_kube::tenant::{ConnectionReuse, FailureKind, Tenant};
use kelpie_kube::watch::{Selection, WatchEvent};
use kelpie_net::{Network, ResolveError};
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

fn tenant(network: &Network) -> Tenant {
    let authority = authority().pem();
    let yaml = KubeconfigBuilder::with_token("https://api.inside", &authority).yaml();
    let config = TenantConfig::from_kubeconfig(yaml.as_bytes()).unwrap();
    Tenant::new(config.with_network(network), ConnectionReuse::Keep)
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test(start_paused = true)]
async fn tenant_client_works_in_virtual_time() {
    let tenant = tenant(&network());
    let start = Instant::now();
    tenant.version(deadline()).await.unwrap();
    let listed = tenant.leases(deadline()).await.unwrap();
    assert_eq!(start.elapsed(), 2 * LATENCY);
    assert_eq!(listed.latency(), LATENCY);
    assert_eq!(listed.leases.iter().count(), 1);
    assert_eq!(listed.version, None);
}

#[tokio::test(start_paused = true)]
async fn known_address_outlives_name_service() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let network = network().with_resolver(move |_| {
        let is_broken = broken.load(Ordering::SeqCst);
        Box::pin(async move {
            if is_broken {
                sleep(Duration::from_secs(9)).await;
                return Err(ResolveError::Unavailable("no answer".into()));
            }
            Ok(())
        })
    });
    let tenant = tenant(&network);
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert_eq!(error.failure(), FailureKind::Transient, "{error}");
    sleep(Duration::from_secs(10)).await;

    is_broken.store(false, Ordering::SeqCst);
    tenant.leases(deadline()).await.unwrap();
    is_broken.store(true, Ordering::SeqCst);
    let start = Instant::now();
    for _ in 0..3 {
        tenant.version(deadline()).await.unwrap();
    }
    // Only the first connection waits for the name service.
    assert_eq!(start.elapsed(), 3 * LATENCY + Duration::from_millis(250));
    let rotated = self::tenant(&network).with_addresses_of(&tenant);
    rotated.leases(deadline()).await.unwrap();
    assert_eq!(start.elapsed(), 4 * LATENCY + Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn connector_errors_are_classified() {
    use FailureKind::{Down, Transient, Unclear};
    let unavailable = ResolveError::Unavailable("no answer".into());
    let cases: [(fn() -> io::Error, _); 6] = [
        (|| io::ErrorKind::ConnectionRefused.into(), Down),
        (|| io::ErrorKind::ConnectionReset.into(), Down),
        (|| io::ErrorKind::TimedOut.into(), Unclear),
        (|| ResolveError::NotFound.into(), Unclear),
        (|| io::Error::from_raw_os_error(24), Transient),
        (|| io::ErrorKind::NetworkUnreachable.into(), Transient),
    ];
    let failure = async |network| {
        let error = tenant(&network).leases(deadline()).await.unwrap_err();
        (error.failure(), error.is_transient(), error.to_string())
    };
    for (error, expected) in cases {
        let network = Network::in_process(move |_, _| Box::pin(async move { Err(error()) }));
        let (found, is_transient, text) = failure(network).await;
        assert_eq!(found, expected, "{text}");
        assert_eq!(is_transient, expected == Transient, "{text}");
    }
    let network = Network::in_process(move |_, _| {
        let error = unavailable.clone();
        Box::pin(async move { Err(error.into()) })
    });
    let (found, _, text) = failure(network).await;
    assert_eq!(found, Transient);
    assert_eq!(
        text,
        "api.inside:443: cannot resolve the host name: no answer"
    );
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

/// Serves the head of a list of Secrets and half of its body, and then nothing.
async fn stop_midway(mut stream: DuplexStream, requests: Arc<AtomicUsize>) {
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n\
                {\"kind\":\"SecretList\",\"items\":[";
    stream.write_all(half.as_bytes()).await.unwrap();
    sleep(Duration::from_hours(1)).await;
}

#[tokio::test(start_paused = true)]
async fn list_that_stops_midway_is_repeated() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let network = Network::in_process(move |_, _| {
        let requests = Arc::clone(&counted);
        Box::pin(async move {
            let (client, server) = duplex(4_096);
            tokio::spawn(stop_midway(server, requests));
            Ok(client)
        })
    });
    let clock = SystemClock::new(|| Time::from_micros(7));
    let seed = ClusterClient::in_process(&network, clock, "http://api.inside:443", "t").unwrap();
    let start = Instant::now();
    let mut events = pin!(seed.watch::<KubeconfigSecret>(Selection::default()));
    let event = events.next().await;
    assert!(matches!(event, Some(WatchEvent::Error(_))), "{event:?}");
    assert_eq!(start.elapsed().as_secs(), 10);
    let _ = events.next().await;
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
