//! Pods that look as if they were to be deleted, and must not be.

use kelpie_sim::resource::{NAMESPACES, PODS};
use kelpie_sim::{Deletion, Part, Store};
use serde_json::json;

/// How their names begin.
pub(crate) const BAIT: &str = "bait-";

/// A namespace without a service that anybody waits for.
const ELSEWHERE: &str = "elsewhere";

/// Etcd's dependants have this role.
const DEPENDANT: &str = "apiserver";

const CRASHES: &str = "CrashLoopBackOff";

/// A pod that must not be deleted, because of one thing.
struct Bait {
    name: &'static str,
    role: &'static str,
    is_owned: bool,
    /// What its container waits for; `None`: it runs.
    waits: Option<&'static str>,
}

/// Lays them out in this namespace of a cluster.
pub(crate) fn lay(seed: &Store, namespace: &str) {
    let crashing = |name| Bait {
        name,
        role: DEPENDANT,
        is_owned: true,
        waits: Some(CRASHES),
    };
    let well = Bait {
        waits: None,
        ..crashing("well")
    };
    let starting = Bait {
        waits: Some("ContainerCreating"),
        ..crashing("starting")
    };
    let of_another_service = Bait {
        role: "scheduler",
        ..crashing("of-another-service")
    };
    let ownerless = Bait {
        is_owned: false,
        ..crashing("ownerless")
    };
    let leaving = crashing("leaving");
    for bait in [well, starting, of_another_service, ownerless, leaving] {
        bait.lay(seed, namespace);
    }
    let leaving = format!("{BAIT}leaving");
    let delete = seed.delete(&PODS, namespace, &leaving, &Deletion::now());
    delete.unwrap();
    if seed.get(&NAMESPACES, "", ELSEWHERE).is_err() {
        let elsewhere = json!({ "metadata": { "name": ELSEWHERE } });
        seed.create(&NAMESPACES, "", elsewhere).unwrap();
        crashing("in-another-namespace").lay(seed, ELSEWHERE);
    }
}

impl Bait {
    fn lay(&self, seed: &Store, namespace: &str) {
        let name = format!("{BAIT}{}", self.name);
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
                // Who is on its way out stays there for good.
                "finalizers": ["kelpie.dev/test"],
            },
            "spec": { "containers": [{ "name": "main", "image": "none" }] },
        });
        seed.create(&PODS, namespace, pod).unwrap();
        let state = match self.waits {
            Some(reason) => json!({ "waiting": { "reason": reason } }),
            None => json!({ "running": {} }),
        };
        let shown = seed.modify(&PODS, namespace, &name, Part::Status, |pod| {
            let container = json!({ "name": "main", "restartCount": 7, "state": state });
            pod["status"]["containerStatuses"] = json!([container]);
        });
        shown.unwrap();
    }
}
