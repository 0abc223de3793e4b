//! Connections, requests and memory of the weeder with windows in many namespaces at once.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{ProxyFault, TcpProxy, WeederNamespace, WeederProcess};
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::fixture::*;

/// Two selectors, of which the weeder evaluates one requirement itself.
const TWO_SELECTORS: &str = "\
watchDuration: 5m
servicesAndDependantSelectors:
  etcd:
    podSelectors:
    - matchLabels: {role: dependant, tier: api}
    - matchLabels: {role: dependant, tier: backup}
";

/// The rate limit of Gardener.
const LIMIT: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=100"];

/// Objects created or changed at the same time.
const CONCURRENCY: usize = 16;

/// The largest values while windows open, and the request rate.
#[derive(Debug, Default)]
struct PeakLoad {
    open_files: usize,
    memory: u64,
    /// The number of requests answered so far, at the end.
    requests: f64,
    windows: f64,
    took: Duration,
}

/// Creates namespaces whose etcd is ready.
async fn create_namespaces(fixture: &Fixture, count: u32) -> Vec<WeederNamespace> {
    let make = async |number: u32| {
        let namespace = fixture.empty_namespace(&format!("shoot-{number:04}")).await;
        let slice = namespace.create_slice(ETCD, ETCD, &[Some(true)]);
        slice.await.unwrap();
        namespace
    };
    let namespaces = stream::iter(0..count)
        .map(make)
        .buffer_unordered(CONCURRENCY);
    namespaces.collect().await
}

async fn set_all(namespaces: &[WeederNamespace], ready: bool) {
    let changes = namespaces
        .iter()
        .map(|namespace| async move { namespace.set_endpoints(ETCD, &[Some(ready)]).await });
    let changes = stream::iter(changes).buffer_unordered(CONCURRENCY);
    changes.try_collect::<()>().await.unwrap();
}

/// Measures until this many windows are open, or until the timeout.
async fn until_windows(weeder: &WeederProcess, windows: u32, timeout: Duration) -> PeakLoad {
    let (start, mut peak) = (Instant::now(), PeakLoad::default());
    let open = poll::until("windows", timeout, async || {
        let process = weeder.kelpie.process();
        peak.open_files = peak.open_files.max(process.open_files()?);
        peak.memory = peak.memory.max(process.anonymous_bytes()?);
        peak.windows = weeder.kelpie.metric("kelpie_weeder_active_windows").await?;
        let answered = "kelpie_weeder_seed_requests_total{code=\"200\"}";
        peak.requests = weeder.kelpie.metric(answered).await?;
        Ok((peak.windows > f64::from(windows) - 0.5).then_some(()))
    });
    let _ = open.await;
    peak.took = start.elapsed();
    peak
}

/// Starts a weeder in these namespaces, and then lets all services recover at once. Returns the
/// load of either.
async fn measure(count: u32) -> [PeakLoad; 2] {
    let fixture = Fixture::start().await;
    let namespaces = create_namespaces(&fixture, count).await;
    let proxy = TcpProxy::start(fixture.seed.control_plane.api.url())
        .await
        .unwrap();
    let weeder = fixture.weeder_through(&proxy, TWO_SELECTORS, &LIMIT).await;
    let start = until_windows(&weeder, count, Duration::from_mins(4)).await;
    println!("{count} namespaces, start: {start:?}");
    drop(weeder);

    set_all(&namespaces, false).await;
    let weeder = fixture.weeder_through(&proxy, TWO_SELECTORS, &LIMIT).await;
    proxy.set_fault(ProxyFault::Stall);
    set_all(&namespaces, true).await;
    proxy.set_fault(ProxyFault::None);
    let mut recovery = until_windows(&weeder, count, Duration::from_mins(2)).await;
    // The watches open after their windows.
    let later = until_windows(&weeder, u32::MAX, Duration::from_secs(20)).await;
    recovery.open_files = recovery.open_files.max(later.open_files);
    recovery.memory = recovery.memory.max(later.memory);
    println!("{count} namespaces, recovery of all: {recovery:?}");
    [start, recovery]
}

#[tokio::test]
async fn namespace_needs_one_connection() {
    let [start, recovery] = measure(60).await;
    assert!(start.windows > 59.5 && recovery.windows > 59.5);
    // One for each namespace, and some for everything else.
    for load in [&start, &recovery] {
        assert!(load.open_files < 60 + 60, "{load:?}");
    }
}

/// `cargo test -p kelpie-e2e --test it -- weeder::many_namespaces --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes: creates 2,000 namespaces"]
async fn connections_are_bounded_with_2000_namespaces() {
    let [start, recovery] = measure(2_000).await;
    assert!(recovery.windows > 1_999.5, "{recovery:?}");
    assert!(start.open_files < 600 && recovery.open_files < 600);
    assert!(start.memory < 100_000_000 && recovery.memory < 100_000_000);
    // The first list, then what the rate limit allows, beside the watch on the services.
    let allowed = 100.0 + 20.0 * start.took.as_secs_f64() + 50.0;
    assert!(start.requests < allowed, "{start:?}");
}
