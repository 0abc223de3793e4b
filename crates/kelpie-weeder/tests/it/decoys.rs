//! Pods that resemble the weeder's targets, but must not be deleted.

use kelpie_sim::resource::{NAMESPACES, PODS};
use kelpie_sim::{DeleteOptions, ObjectStore, WriteScope};
use serde_json::json;

/// The prefix of their names.
pub(crate) const DECOY_PREFIX: &str = "bait-";

/// A namespace without an etcd Service.
const OTHER_NAMESPACE: &str = "elsewhere";

/// The role of etcd's dependants.
const DEPENDANT_ROLE: &str = "apiserver";

const CRASH_LOOP: &str = "CrashLoopBackOff";

/// A pod that differs from a target in one property.
struct Decoy {
    name: &'static str,
    role: &'static str,
    is_owned: bool,
    /// The reason why its container waits. `None` if it runs.
    waiting_reason: Option<&'static str>,
}

/// Creates the decoys in a cluster's namespace.
pub(crate) fn create_all(seed: &ObjectStore, namespace: &str) {
    let crashing = |name| Decoy {
        name,
        role: DEPENDANT_ROLE,
        is_owned: true,
        waiting_reason: Some(CRASH_LOOP),
    };
    let running = Decoy {
        waiting_reason: None,
        ..crashing("well")
    };
    let starting = Decoy {
        waiting_reason: Some("ContainerCreating"),
        ..crashing("starting")
    };
    let of_another_service = Decoy {
        role: "scheduler",
        ..crashing("of-another-service")
    };
    let ownerless = Decoy {
        is_owned: false,
        ..crashing("ownerless")
    };
    let terminating = crashing("leaving");
    for decoy in [
        running,
        starting,
        of_another_service,
        ownerless,
        terminating,
    ] {
        decoy.create(seed, namespace);
    }
    let terminating = format!("{DECOY_PREFIX}leaving");
    let deleted = seed.delete(&PODS, namespace, &terminating, &DeleteOptions::immediate());
    deleted.unwrap();
    if seed.get(&NAMESPACES, "", OTHER_NAMESPACE).is_err() {
        let other = json!({ "metadata": { "name": OTHER_NAMESPACE } });
        seed.create(&NAMESPACES, "", other).unwrap();
        crashing("in-another-namespace").create(seed, OTHER_NAMESPACE);
    }
}

impl Decoy {
    fn create(&self, seed: &ObjectStore, namespace: &str) {
        let name = format!("{DECOY_PREFIX}{}", self.name);
        let owner = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": name,
            "uid": format!("owner-of-{name}"),
            "controller": true,
        });
        let owners: Vec<_> = self.is_owned.then_some(owner).into_iter().collect();
        let pod = json!({
            "metadata": {
                "name": name,
                "labels": { "gardener.cloud/role": "controlplane", "role": self.role },
                "ownerReferences": owners,
                // Keeps the deleted decoy around.
                "finalizers": ["kelpie.dev/test"],
            },
            "spec": { "containers": [{ "name": "main", "image": "none" }] },
        });
        seed.create(&PODS, namespace, pod).unwrap();
        let state = match self.waiting_reason {
            Some(reason) => json!({ "waiting": { "reason": reason } }),
            None => json!({ "running": {} }),
        };
        let updated = seed.modify(&PODS, namespace, &name, WriteScope::Status, |pod| {
            let container = json!({ "name": "main", "restartCount": 7, "state": state });
            pod["status"]["containerStatuses"] = json!([container]);
        });
        updated.unwrap();
    }
}
