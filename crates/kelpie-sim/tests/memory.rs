//! Memory per node. A landscape in one process has 200,000 of them.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::{LEASES, NODES};
use kelpie_sim::{ObjectStore, SimClock, WriteScope};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const COUNT: usize = 100;

/// In bytes. 1 GB for 2,000 clusters of 100 nodes leaves 5 KB per node, half of it for everything
/// else.
const LARGEST: usize = 2_500;

fn node(name: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": "KubeletHasNoProblem",
            "message": "kubelet has no problem of this kind",
            "lastHeartbeatTime": "2027-01-15T08:00:00Z",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        })
    };
    let kinds = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut conditions: Vec<Value> = kinds.iter().map(|kind| condition(kind, "False")).collect();
    conditions.push(condition("Ready", "True"));
    json!({
        "metadata": { "name": name, "labels": { "worker.gardener.cloud/pool": "pool" } },
        "spec": { "providerID": format!("sim:///{name}") },
        "status": { "conditions": conditions, "nodeInfo": { "kubeletVersion": "v1.36.4" } },
    })
}

#[test]
fn node_with_lease_fits_in_2500_bytes() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let start = Time::from_unix(1_800_000_000, 0);
    let store = ObjectStore::new(SimClock::new(move || start), 1);
    let before = dhat::HeapStats::get().curr_bytes;
    let names: Vec<String> = (0..COUNT)
        .map(|number| format!("shoot--project--name-pool-z1-{number:05}-abcde"))
        .collect();
    for name in &names {
        let made = store.create(&NODES, "", node(name)).unwrap();
        let owner = json!({
            "apiVersion": "v1", "kind": "Node", "name": name, "uid": made["metadata"]["uid"],
        });
        let lease = json!({
            "metadata": { "name": name, "ownerReferences": [owner] },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 40 },
        });
        store.create(&LEASES, "kube-node-lease", lease).unwrap();
    }
    // Renewals and heartbeats leave their history.
    let at = start.after(Duration::from_secs(10));
    for name in &names {
        store.renew("kube-node-lease", name, at).unwrap();
        let beat = |node: &mut Value| {
            node["status"]["conditions"][3]["lastHeartbeatTime"] = at.to_string().into();
        };
        store
            .modify(&NODES, "", name, WriteScope::Status, beat)
            .unwrap();
    }
    drop(names);
    let used = dhat::HeapStats::get().curr_bytes - before;
    let each = used / COUNT;
    println!("{each} B each");
    assert!(each < LARGEST, "{each} B each");
}
