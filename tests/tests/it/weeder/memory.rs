//! Pods without a window cost nothing.

use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{Dependants, PodSpec, Weeder};

use super::stage::*;

/// Objects are made by so many hands.
const HANDS: usize = 16;

async fn crowd(made: &Dependants, pods: usize) {
    let make = async |number: usize| -> anyhow::Result<()> {
        let pod = PodSpec::new(&format!("pod-{number:05}"));
        made.pod(&pod.new_born()).await.map(|_| ())
    };
    let made = stream::iter(0..pods).map(make).buffer_unordered(HANDS);
    made.try_collect::<()>().await.unwrap();
}

/// Requests that a weeder has made; its own memory.
async fn cost(weeder: &Weeder) -> (f64, u64) {
    let requests = "kelpie_weeder_seed_requests_total{code=\"200\"}";
    let requests = weeder.kelpie.metric(requests).await.unwrap();
    (requests, weeder.kelpie.process().allocated().unwrap())
}

/// No pod is asked for while no window is open.
#[tokio::test]
async fn without_a_window_pods_are_not_even_asked_for() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    let weeder = stage.weeder(CONFIG, &[]).await;
    let (requests, before) = cost(&weeder).await;
    crowd(&made, 500).await;
    let (after, memory) = cost(&weeder).await;
    println!(
        "{} KB before, {} KB with 500 pods",
        before / 1000,
        memory / 1000
    );
    // The watch on the services may have begun a new round.
    assert!(after - requests < 2.5, "{requests} requests, then {after}");
    // A window shows that they would have been seen.
    made.set(ETCD, &[Some(true)]).await.unwrap();
    let seen = weeder.until_service("the pods", "shoot", ETCD, PATIENCE, |state| {
        state["window"]["pods"] == 500
    });
    seen.await.unwrap();
}

/// `cargo test -p kelpie-e2e --test it -- weeder::memory --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes: 50,000 pods have to be made"]
async fn memory_with_50_000_pods_and_no_window_is_that_without_any() {
    let stage = Stage::start().await;
    let empty = stage.without_etcd("empty").await;
    let weeder = stage.weeder(CONFIG, &[]).await;
    let (_, none) = cost(&weeder).await;
    let namespaces: Vec<Dependants> = stream::iter(0..10)
        .then(async |number| {
            let made = stage.without_etcd(&format!("crowd-{number}")).await;
            crowd(&made, 5_000).await;
            made
        })
        .collect()
        .await;
    let (_, grown) = cost(&weeder).await;
    let fresh = stage.weeder(CONFIG, &[]).await;
    let (_, anew) = cost(&fresh).await;
    println!(
        "own memory: {} KB with no pods, {} KB with 50,000, {} KB when started with them",
        none / 1000,
        grown / 1000,
        anew / 1000
    );
    empty.set(ETCD, &[Some(true)]).await.unwrap();
    namespaces[0].set(ETCD, &[Some(true)]).await.unwrap();
    let seen = fresh.until_service("the pods", "crowd-0", ETCD, PATIENCE, |state| {
        state["window"]["pods"] == 5_000
    });
    seen.await.unwrap();
    let (_, open) = cost(&fresh).await;
    println!("{} KB with a window over 5,000 of them", open / 1000);
    let slack = 1_000_000;
    assert!(grown < none + slack && anew < none + slack);
    // What the pods take, each with an owner of its own, and what their list took on its way.
    assert!(open < anew + 5_000 * 3_000 + slack);
}
