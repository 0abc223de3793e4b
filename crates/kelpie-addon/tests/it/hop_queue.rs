//! The hub status controller with clusters that fail, and without its Lease.

use std::time::Duration;

use kelpie_addon::AddonOptions;
use kelpie_kube::leader::{ElectionSettings, ReplicaRole};
use kelpie_sim::resource::LEASES;
use kelpie_sim::server::{FaultInjection, RequestInfo};
use kelpie_sim::{StatusError, StatusReason, WriteScope};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: &str = "hop";

/// Adds a cluster with an addon on the hub.
fn create_cluster(hub: &ApiServer, cluster: &str) {
    hub.create_namespace(cluster);
    let addon = json!({ "metadata": { "name": NAME } });
    hub.store().create(&ADDONS, cluster, addon).unwrap();
    create_managed_addon(hub, cluster);
}

fn set_condition(hub: &ApiServer, cluster: &str, kind: &str) {
    let conditions = json!([component_condition(kind, "Because")]);
    let change = |addon: &mut Value| addon["status"]["conditions"] = conditions;
    let (store, scope) = (hub.store(), WriteScope::Status);
    store.modify(&ADDONS, cluster, NAME, scope, change).unwrap();
}

async fn until_shown(hub: &ApiServer, cluster: &str, kind: &str) {
    until(kind, || {
        let shown = managed_addon(hub, cluster);
        (condition(&shown, kind)["status"] == "True").then_some(())
    })
    .await;
}

/// Fails all writes of one cluster.
fn reject_writes(hub: &ApiServer, cluster: &'static str, reason: StatusReason) {
    hub.set_rule(move |request| {
        if is_write_of(request, cluster) {
            FaultInjection::reject(StatusError::new(reason, "injected"))
        } else {
            FaultInjection::default()
        }
    });
}

fn is_write_of(request: &RequestInfo, cluster: &str) -> bool {
    request.verb == "update"
        && request.namespace == cluster
        && request.resource.as_ref() == Some(&MANAGED_ADDONS)
}

/// Starts a hub with a second cluster, `another`, that has a condition to show.
fn hub_of_two_clusters() -> Fixture {
    let fixture = Fixture::start();
    let hub = &fixture.hub;
    install_managed_addons(hub);
    create_managed_addon(hub, CLUSTER);
    create_cluster(hub, "another");
    set_condition(hub, "another", "Degraded");
    fixture
}

#[tokio::test(start_paused = true)]
async fn failing_cluster_delays_no_other() {
    for reason in [StatusReason::Forbidden, StatusReason::InternalError] {
        let fixture = hub_of_two_clusters();
        let hub = &fixture.hub;
        reject_writes(hub, "another", reason);
        let _hop = fixture.start_hub_status(RESYNC);
        // Until the pauses of this cluster are long.
        sleep(150 * SECOND).await;
        for kind in ["Degraded", "Progressing", "Degraded", "Progressing"] {
            let started = Instant::now();
            set_condition(hub, CLUSTER, kind);
            until_shown(hub, CLUSTER, kind).await;
            let took = started.elapsed();
            assert!(took <= 3 * SECOND, "{reason:?}: {took:?}");
            sleep(20 * SECOND).await;
        }
        let writes = hub.requests_since(0);
        let attempts = writes
            .iter()
            .filter(|request| is_write_of(request, "another"));
        let attempts = attempts.count();
        assert!((6..=12).contains(&attempts), "{reason:?}: {attempts}");
        hub.clear_rule();
        until_shown(hub, "another", "Degraded").await;
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_cluster_delays_no_other() {
    let fixture = hub_of_two_clusters();
    let hub = &fixture.hub;
    hub.set_rule(|request| {
        if is_write_of(request, "another") {
            FaultInjection::hang()
        } else {
            FaultInjection::default()
        }
    });
    let _hop = fixture.start_hub_status(RESYNC);
    sleep(SECOND).await;
    let started = Instant::now();
    set_condition(hub, CLUSTER, "Degraded");
    until_shown(hub, CLUSTER, "Degraded").await;
    let took = started.elapsed();
    assert!(took <= SECOND, "{took:?}");
}

fn candidate(resync: Duration) -> AddonOptions {
    let election = ElectionSettings {
        namespace: CLUSTER.into(),
        name: LEASE.into(),
        identity: "candidate".into(),
        lease_duration: 15 * SECOND,
        renew_deadline: 10 * SECOND,
        retry_period: 2 * SECOND,
    };
    AddonOptions {
        role: ReplicaRole::new(Some(election), false),
        ..options(resync)
    }
}

fn holder(hub: &ApiServer) -> Value {
    let lease = hub.get(&LEASES, LEASE);
    lease.map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
}

#[tokio::test(start_paused = true)]
async fn lost_lease_stops_retries_until_it_is_back() {
    let fixture = Fixture::start();
    let hub = &fixture.hub;
    install_managed_addons(hub);
    create_managed_addon(hub, CLUSTER);
    set_condition(hub, CLUSTER, "Degraded");
    reject_writes(hub, CLUSTER, StatusReason::Forbidden);
    let _hop = fixture.start_hub_status_with(candidate(RESYNC));
    until("the Lease", || (holder(hub) == "candidate").then_some(())).await;
    sleep(10 * SECOND).await;
    // A retry is pending when another replica takes the Lease.
    let change = |lease: &mut Value| {
        lease["spec"]["holderIdentity"] = json!("another");
        lease["spec"]["leaseDurationSeconds"] = json!(90);
    };
    let (store, scope) = (hub.store(), WriteScope::Object);
    store
        .modify(&LEASES, CLUSTER, LEASE, scope, change)
        .unwrap();
    sleep(10 * SECOND).await;
    let since = hub.request_count();
    sleep(60 * SECOND).await;
    let requests = hub.requests_since(since);
    let is_write = |request: &&RequestInfo| is_write_of(request, CLUSTER);
    assert_eq!(requests.iter().filter(is_write).count(), 0, "{requests:?}");
    hub.clear_rule();
    until("the Lease again", || {
        (holder(hub) == "candidate").then_some(())
    })
    .await;
    let started = Instant::now();
    until_shown(hub, CLUSTER, "Degraded").await;
    let took = started.elapsed();
    assert!(took < SECOND, "{took:?}");
}

/// Prints the requests of a start and of an hour with this many clusters. Run by `cargo xtask bench
/// hop`.
#[tokio::test(start_paused = true)]
#[ignore = "a measurement: cargo xtask bench hop"]
async fn requests_of_two_thousand_clusters() {
    const CLUSTERS: usize = 2_000;
    let Fixture { hub, spoke } = Fixture::without_addons();
    install_managed_addons(&hub);
    for number in 0..CLUSTERS {
        let cluster = format!("cluster-{number:04}");
        create_cluster(&hub, &cluster);
        set_condition(&hub, &cluster, "Degraded");
    }
    let fixture = Fixture { spoke, hub };
    let hub = &fixture.hub;
    let counts = |since| {
        let requests = hub.requests_since(since);
        let count = |verb: &str| {
            requests
                .iter()
                .filter(|request| request.verb == verb)
                .count()
        };
        ["list", "watch", "get", "update"].map(count)
    };
    let started = Instant::now();
    let hop = fixture.start_hub_status(RESYNC);
    hop.until_grown("hop_written_total", CLUSTERS as u64).await;
    let [list, watch, get, update] = counts(0);
    println!(
        "| start: time in which all are written | {:.0} s |",
        started.elapsed().as_secs_f64()
    );
    println!("| start: list, watch, get, update | {list}, {watch}, {get}, {update} |");
    sleep(2 * RESYNC).await;
    let since = hub.request_count();
    sleep(Duration::from_hours(1)).await;
    let [list, watch, get, update] = counts(since);
    println!("| an hour: list, watch, get, update | {list}, {watch}, {get}, {update} |");
    let mut per_second = std::collections::BTreeMap::new();
    for request in hub.requests_since(since) {
        *per_second
            .entry(request.received_at.as_micros() / 1_000_000)
            .or_insert(0) += 1;
    }
    let most = per_second.values().max().copied().unwrap_or(0);
    println!("| an hour: most requests in a second | {most} |");
    assert_eq!(update, 0);
}
