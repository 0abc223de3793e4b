//! Without an open window, pods cost the weeder neither requests nor memory.

use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{TestPod, WeederNamespace, WeederProcess};

use super::fixture::*;

/// Pods created at the same time.
const CONCURRENCY: usize = 16;

async fn create_pods(namespace: &WeederNamespace, pods: usize) {
    let make = async |number: usize| -> anyhow::Result<()> {
        let pod = TestPod::new(&format!("pod-{number:05}"));
        namespace
            .create_pod(&pod.without_status())
            .await
            .map(|_| ())
    };
    let created = stream::iter(0..pods)
        .map(make)
        .buffer_unordered(CONCURRENCY);
    created.try_collect::<()>().await.unwrap();
}

/// Returns the number of successful requests of a weeder, and its own memory in bytes.
async fn requests_and_memory(weeder: &WeederProcess) -> (f64, u64) {
    let requests = "kelpie_weeder_seed_requests_total{code=\"200\"}";
    let requests = weeder.kelpie.metric(requests).await.unwrap();
    (requests, weeder.kelpie.process().anonymous_bytes().unwrap())
}

#[tokio::test]
async fn no_pod_requests_without_window() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    let weeder = fixture.weeder(CONFIG, &[]).await;
    let (requests, before) = requests_and_memory(&weeder).await;
    create_pods(&namespace, 500).await;
    let (after, memory) = requests_and_memory(&weeder).await;
    println!(
        "{} KB before, {} KB with 500 pods",
        before / 1000,
        memory / 1000
    );
    // The watch on the services may have been renewed.
    assert!(after - requests < 2.5, "{requests} requests, then {after}");
    // The pods do match: a window shows them.
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let watched = weeder.until_service("the pods", "shoot", ETCD, TIMEOUT, |state| {
        state["window"]["pods"] == 500
    });
    watched.await.unwrap();
}

/// `cargo test -p kelpie-e2e --test it -- weeder::memory_without_window --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes: creates 50,000 pods"]
async fn pods_use_no_memory_without_window() {
    let fixture = Fixture::start().await;
    let empty = fixture.namespace_without_etcd("empty").await;
    let weeder = fixture.weeder(CONFIG, &[]).await;
    let (_, none) = requests_and_memory(&weeder).await;
    let namespaces: Vec<WeederNamespace> = stream::iter(0..10)
        .then(async |number| {
            let namespace = fixture
                .namespace_without_etcd(&format!("crowd-{number}"))
                .await;
            create_pods(&namespace, 5_000).await;
            namespace
        })
        .collect()
        .await;
    let (_, grown) = requests_and_memory(&weeder).await;
    let fresh = fixture.weeder(CONFIG, &[]).await;
    let (_, restarted) = requests_and_memory(&fresh).await;
    println!(
        "own memory: {} KB with no pods, {} KB with 50,000, {} KB when started with them",
        none / 1000,
        grown / 1000,
        restarted / 1000
    );
    empty.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    namespaces[0]
        .set_endpoints(ETCD, &[Some(true)])
        .await
        .unwrap();
    let watched = fresh.until_service("the pods", "crowd-0", ETCD, TIMEOUT, |state| {
        state["window"]["pods"] == 5_000
    });
    watched.await.unwrap();
    let (_, open) = requests_and_memory(&fresh).await;
    println!("{} KB with a window over 5,000 of them", open / 1000);
    let slack = 1_000_000;
    assert!(grown < none + slack && restarted < none + slack);
    // The pods, each with its own owner, and the memory that their list needed while it was read.
    assert!(open < restarted + 5_000 * 3_000 + slack);
}
