//! An admission webhook of the seed is away during a partition: records are kept on the leader
//! Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_chaos::ChaosRun;
use kelpie_core::prober::fence::{KeptRecord, ResourceVersion};
use kelpie_core::prober::{ResourceRef, Setting};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{LeaseName, ReplicaRole};
use kelpie_kube::lease_records::{LeaseRecords, RECORDS_ANNOTATION, RecordKey};
use kelpie_kube::replica::Replica;
use kelpie_sim::resource::{DEPLOYMENTS, LEASES};
use kelpie_sim::scenario::{Fault, FaultSite, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimEventKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::auditor::{MARKER, RECORD};
use crate::one_cluster::{SECOND, incident, landscape};
use crate::replica::{LEASE, prober};
use crate::subject::Prober;

fn kcm(landscape: &Landscape) -> Value {
    let (seed, cluster) = (landscape.seed(), LandscapePlan::default().cluster_name(0));
    let [kcm, ..] = LandscapePlan::CONTROLLERS;
    seed.store().get(&DEPLOYMENTS, &cluster, kcm).unwrap()
}

fn lease(landscape: &Landscape) -> Value {
    let seed = landscape.seed();
    seed.store().get(&LEASES, "garden", LEASE).unwrap()
}

/// Returns the number of records on the leader Lease.
fn records(landscape: &Landscape) -> usize {
    let annotation = lease(landscape)["metadata"]["annotations"][RECORDS_ANNOTATION].clone();
    let text = annotation.as_str().unwrap_or("{}");
    let targets: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_str(text).unwrap();
    targets.values().map(BTreeMap::len).sum()
}

#[tokio::test(start_paused = true)]
async fn record_moves_to_the_target() {
    let partition = incident(120, 400, Fault::Partition(NodeSelection::All));
    let webhook = incident(100, 250, Fault::WebhookOutage);
    let landscape = landscape(vec![partition, webhook]);
    let prober = prober(&landscape, "one", true);
    sleep(240 * SECOND).await;
    let fenced = kcm(&landscape);
    assert_eq!(fenced["spec"]["replicas"], 0);
    assert_eq!(fenced["metadata"]["annotations"].get(MARKER), None);
    assert_eq!(records(&landscape), 1);
    assert_eq!(lease(&landscape)["spec"]["leaseTransitions"], 0);

    sleep(25 * SECOND).await;
    let annotations = &kcm(&landscape)["metadata"]["annotations"];
    assert_eq!(
        (&annotations[MARKER], &annotations[RECORD]),
        (&json!(""), &json!("1"))
    );
    assert_eq!(records(&landscape), 0);

    sleep(175 * SECOND).await;
    assert_eq!(kcm(&landscape)["spec"]["replicas"], 1);
    assert_eq!(landscape.damage().nodes_unknown, 0);
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fence_is_restored_without_the_webhook() {
    let partition = incident(120, 250, Fault::Partition(NodeSelection::All));
    let webhook = incident(100, 900, Fault::WebhookOutage);
    let landscape = landscape(vec![partition, webhook]);
    let prober = prober(&landscape, "one", false);
    sleep(240 * SECOND).await;
    assert_eq!(kcm(&landscape)["spec"]["replicas"], 0);
    assert_eq!(records(&landscape), 1, "on a Lease that no election uses");
    sleep(40 * SECOND).await;
    assert_eq!(kcm(&landscape)["spec"]["replicas"], 1);
    assert_eq!(records(&landscape), 0);
    assert_eq!(landscape.damage().nodes_unknown, 0);
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hanging_webhook_is_bypassed() {
    let partition = incident(120, 250, Fault::Partition(NodeSelection::All));
    let webhook = incident(100, 900, Fault::WebhookTimeout);
    let landscape = landscape(vec![partition, webhook]);
    let prober = prober(&landscape, "one", true);
    sleep(240 * SECOND).await;
    assert_eq!(kcm(&landscape)["spec"]["replicas"], 0);
    assert_eq!(records(&landscape), 1);
    sleep(40 * SECOND).await;
    assert_eq!(kcm(&landscape)["spec"]["replicas"], 1);
    assert_eq!(records(&landscape), 0);
    assert_eq!(landscape.damage().nodes_unknown, 0);
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn marked_fence_is_restored_without_the_webhook() {
    let partition = incident(120, 250, Fault::Partition(NodeSelection::All));
    let webhook = incident(200, 400, Fault::WebhookOutage);
    let landscape = landscape(vec![partition, webhook]);
    let prober = prober(&landscape, "one", false);
    sleep(280 * SECOND).await;
    let restored = kcm(&landscape);
    assert_eq!(restored["spec"]["replicas"], 1);
    assert_eq!(restored["metadata"]["annotations"][MARKER], json!(""));
    sleep(135 * SECOND).await;
    assert_eq!(kcm(&landscape)["metadata"]["annotations"].get(MARKER), None);
    prober.stop().await.unwrap();
}

fn chaos_run(rng_seed: u64, watchdogs: usize, incidents: Vec<Incident>) -> ChaosRun {
    ChaosRun {
        plan: LandscapePlan {
            rng_seed,
            ..LandscapePlan::with_size(2, 5)
        },
        scenario: Scenario {
            length: 480 * SECOND,
            incidents,
            ..Scenario::default()
        },
        watchdogs,
    }
}

/// The leader crashes or is paused at different instants around the fence or the restore.
#[test]
fn leader_may_end_at_any_time() {
    for (number, fault) in [Fault::Crash, Fault::Pause].into_iter().enumerate() {
        for step in 0..6 {
            let begin = [150, 245][usize::try_from(step % 2).unwrap()] + step;
            let incidents = vec![
                incident(120, 250, Fault::Partition(NodeSelection::All)),
                incident(100, 330, Fault::WebhookOutage),
                incident(begin, begin + 40, fault.clone()),
            ];
            let rng_seed = u64::from(step) + 10 * u64::try_from(number).unwrap();
            let outcome = chaos_run(rng_seed, 2, incidents).run::<Prober>().unwrap();
            assert_eq!(
                outcome.violations,
                Vec::<String>::new(),
                "{fault} at {begin}"
            );
            assert_eq!(outcome.damage.nodes_unknown, 0, "{fault} at {begin}");
            assert!(outcome.counts.stops >= 2, "{:?}", outcome.counts);
        }
    }
}

/// Returns a store of records on the leader Lease.
fn store(landscape: &Landscape, name: &str) -> LeaseRecords {
    let (link, clock) = (landscape.link(name), landscape.watchdog_clock());
    let (network, clock) = (link.network(), SystemClock::new(clock));
    let seed = ClusterClient::in_process(&network, clock, &landscape.seed_url(), name).unwrap();
    let replica = Replica::new(&seed, ReplicaRole::Alone, || seed.events(name, name));
    let lease = LeaseName {
        namespace: "garden".into(),
        name: LEASE.into(),
    };
    let (records, serving) = replica.lease_records(&seed, lease);
    tokio::spawn(serving);
    records
}

fn entry(number: usize) -> (RecordKey, KeptRecord) {
    let key = RecordKey {
        namespace: format!("shoot--a--{number}"),
        target: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kube-controller-manager".into(),
        },
    };
    let record = KeptRecord::new("5e1f0c2a", Setting(1), ResourceVersion::new("7"));
    (key, record.unwrap())
}

#[tokio::test(start_paused = true)]
async fn many_records_share_few_writes() {
    let landscape = landscape(Vec::new());
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    landscape.observe(move |event| {
        if let SimEventKind::Request { verb, path, .. } = &event.kind {
            let is_write = ["create", "update", "patch"].contains(verb);
            let is_leader_lease = is_write && path.contains("/namespaces/garden/leases");
            counted.fetch_add(usize::from(is_leader_lease), Ordering::Relaxed);
        }
    });
    let (one, two) = (store(&landscape, "one"), store(&landscape, "two"));
    let until = Instant::now() + 10 * SECOND;
    let keeps = (0..1_000).map(|number| {
        let (store, (key, record)) = ([&one, &two][number % 2], entry(number));
        store.keep(key, record, until)
    });
    assert!(join_all(keeps).await.iter().all(Result::is_ok));
    assert_eq!(records(&landscape), 1_000);
    let drops = (0..1_000).map(|number| {
        let (key, record) = entry(number);
        one.drop_record(key, record, until)
    });
    assert!(join_all(drops).await.iter().all(Result::is_ok));
    assert_eq!(records(&landscape), 0);
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes <= 12, "{writes} writes");
    assert_eq!(one.records().borrow().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_records_and_leadership() {
    let landscape = landscape(Vec::new());
    let replicas = ["one", "two"].map(|name| prober(&landscape, name, true));
    sleep(40 * SECOND).await;
    let leader = lease(&landscape)["spec"]["holderIdentity"].clone();
    let store = store(&landscape, "other");
    for number in 0..200 {
        let (key, record) = entry(number);
        let until = Instant::now() + 10 * SECOND;
        store.keep(key, record, until).await.unwrap();
        sleep(Duration::from_millis(fastrand::u64(50..500))).await;
        assert_eq!(records(&landscape), number + 1);
    }
    let spec = &lease(&landscape)["spec"];
    assert_eq!(
        (&spec["holderIdentity"], &spec["leaseTransitions"]),
        (&leader, &json!(0))
    );
    for replica in replicas {
        replica.stop().await.unwrap();
    }
    assert_eq!(records(&landscape), 200, "the release keeps them too");
}

#[tokio::test(start_paused = true)]
async fn change_without_right_is_not_made() {
    let stall = incident(1, 20, Fault::Stall(FaultSite::Seed));
    let landscape = landscape(vec![stall]);
    let store = store(&landscape, "one");
    sleep(2 * SECOND).await;
    let (key, record) = entry(0);
    let kept = store.keep(key, record, Instant::now() + 5 * SECOND).await;
    assert!(kept.is_err());
    sleep(60 * SECOND).await;
    assert!(
        landscape
            .seed()
            .store()
            .get(&LEASES, "garden", LEASE)
            .is_err()
    );
}
