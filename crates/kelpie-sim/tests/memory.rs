//! What a node costs: a landscape in one process has two hundred thousand of them.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::{LEASES, NODES};
use kelpie_sim::{Clock, Part, Store};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const COUNT: usize = 100;

/// 1 GB for 2,000 clusters with 100 nodes each leaves 5 KB; half of it is for the rest.
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
fn a_node_with_its_lease_takes_less_than_2500_bytes() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let start = Time::from_unix(1_800_000_000, 0);
    let store = Store::new(Clock::new(move || start), 1);
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
    // A while later: renewals and heartbeats have left what history they leave.
    let at = start.after(Duration::from_secs(10));
    for name in &names {
        store.renew("kube-node-lease", name, at).unwrap();
        let beat = |node: &mut Value| {
            node["status"]["conditions"][3]["lastHeartbeatTime"] = at.to_string().into();
        };
        store.modify(&NODES, "", name, Part::Status, beat).unwrap();
    }
    drop(names);
    let used = dhat::HeapStats::get().curr_bytes - before;
    let each = used / COUNT;
    println!("{each} B each");
    assert!(each < LARGEST, "{each} B each");
}
