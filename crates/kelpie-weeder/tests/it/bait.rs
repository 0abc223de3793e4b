//! Pods that look as if they were to be deleted, and must not be.

use kelpie_sim::resource::{NAMESPACES, PODS};
use kelpie_sim::{Deletion, Store};
use serde_json::{Value, json};

/// How their names begin.
pub(crate) const BAIT: &str = "bait-";

/// A namespace without a service that anybody waits for.
const ELSEWHERE: &str = "elsewhere";

/// Lays them out in this namespace of a cluster.
pub(crate) fn lay(seed: &Store, namespace: &str) {
    let create = |name: &str, namespace: &str, role: &str, is_owned: bool, state: Value| {
        let pod = pod(name, role, is_owned, state);
        seed.create(&PODS, namespace, pod).unwrap();
    };
    let crashes = || json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    create(
        "well",
        namespace,
        "apiserver",
        true,
        json!({ "running": {} }),
    );
    let starts = json!({ "waiting": { "reason": "ContainerCreating" } });
    create("starting", namespace, "apiserver", true, starts);
    create(
        "of-another-service",
        namespace,
        "scheduler",
        true,
        crashes(),
    );
    create("ownerless", namespace, "apiserver", false, crashes());
    create("leaving", namespace, "apiserver", true, crashes());
    let leaving = format!("{BAIT}leaving");
    seed.delete(&PODS, namespace, &leaving, &Deletion::now())
        .unwrap();
    if seed.get(&NAMESPACES, "", ELSEWHERE).is_err() {
        let elsewhere = json!({ "metadata": { "name": ELSEWHERE } });
        seed.create(&NAMESPACES, "", elsewhere).unwrap();
        create("elsewhere", ELSEWHERE, "apiserver", true, crashes());
    }
}

fn pod(name: &str, role: &str, is_owned: bool, state: Value) -> Value {
    let owner = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": format!("owner-of-{name}"),
        "controller": true,
    });
    json!({
        "metadata": {
            "name": format!("{BAIT}{name}"),
            "labels": { "gardener.cloud/role": "controlplane", "role": role },
            "ownerReferences": is_owned.then_some([owner]).into_iter().flatten().collect::<Vec<_>>(),
            // Who is on its way out stays there for good.
            "finalizers": ["kelpie.dev/test"],
        },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
        "status": { "containerStatuses": [{ "name": "main", "restartCount": 7, "state": state }] },
    })
}
