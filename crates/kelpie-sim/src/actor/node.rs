//! A node, its kubelet and its lease.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;
use serde_json::{Value, json};

use crate::clock;
use crate::field;
use crate::resource::{LEASES, NODES};
use crate::server::VERSION;
use crate::store::{Part, Store};

/// Where leases of nodes are.
pub(crate) const NAMESPACE: &str = "kube-node-lease";

/// A kubelet that failed tries again after so long: at once, or when the next renewal is due.
const SOONEST_RETRY: Duration = Duration::from_millis(200);
const RETRIES: Duration = Duration::from_millis(9_800);

/// How much later than planned a renewal comes, at most.
const JITTER: f64 = 0.04;

/// How often a kubelet reports that nothing has changed.
const REPORT: Duration = Duration::from_mins(5);

/// How fast kubelets work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) renewal: Duration,
    pub(crate) lease_seconds: u64,
}

/// A node with all that its actors know about it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: Arc<str>,
    /// Its place in the cluster, for faults of a share of the nodes.
    pub(crate) number: usize,
    pub(crate) zone: usize,
    pub(crate) health: Health,
    /// When its lease was last renewed, really.
    pub(crate) renewed: Time,
    /// How long it had not renewed before that.
    pub(crate) gap: Duration,
    /// When its Ready condition was last reported.
    pub(crate) reported: Time,
    /// What kube-controller-manager remembers of it.
    pub(crate) memory: Memory,
    /// Faults keep it from its API server.
    is_cut: bool,
    /// By how many microseconds its clock is wrong.
    offset: i64,
    next_renewal: Time,
    next_report: Time,
}

/// Its Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Ready,
    /// Since when.
    Unknown(Time),
}

/// What one process of kube-controller-manager has seen of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) renew_time: Option<Time>,
    pub(crate) reported: Option<Time>,
    /// When it last saw a sign of life.
    pub(crate) stamp: Option<Time>,
    /// Since when it is known to be unreachable.
    pub(crate) tainted: Option<Time>,
    pub(crate) is_evicted: bool,
}

impl Node {
    /// A node that joins now: its Node and its Lease are made.
    pub(crate) fn join(
        store: &Store,
        (name, number, zone): (Arc<str>, usize, usize),
        pace: Pace,
        now: Time,
        rng: &mut Rng,
    ) -> Self {
        let node = store.create(&NODES, "", object(&name, zone, now));
        let owner = node.map(|node| node["metadata"]["uid"].clone());
        let owner = owner.unwrap_or_default();
        let lease = lease(&name, now, pace.lease_seconds, &owner);
        // A name that is taken already is this node's own.
        let _ = store.create(&LEASES, NAMESPACE, lease);
        Self {
            name,
            number,
            zone,
            health: Health::Ready,
            renewed: now,
            gap: Duration::ZERO,
            reported: now,
            memory: Memory::default(),
            is_cut: false,
            offset: 0,
            next_renewal: now.after(pace.renewal.mul_f64(rng.f64())),
            next_report: now.after(REPORT.mul_f64(rng.f64())),
        }
    }

    /// Lets the kubelet work until `now`.
    pub(crate) fn settle(&mut self, store: &Store, pace: Pace, now: Time, rng: &mut Rng) {
        if self.is_cut {
            return;
        }
        while self.next_renewal <= now {
            let at = self.next_renewal;
            let shown = Time::from_micros(at.as_micros().saturating_add(self.offset));
            if store.renew(NAMESPACE, &self.name, shown).is_ok() {
                self.gap = at.since(self.renewed);
                self.renewed = at;
            }
            self.next_renewal = at.after(pace.renewal.mul_f64(1.0 + JITTER * rng.f64()));
        }
        if self.next_report <= now {
            self.report(store, rng);
        }
    }

    /// Reports that it is ready, and counts as such.
    fn report(&mut self, store: &Store, rng: &mut Rng) {
        let at = self.next_report;
        let shown = clock::seconds(Time::from_micros(
            at.as_micros().saturating_add(self.offset),
        ));
        let written = store.modify(&NODES, "", &self.name, Part::Status, |node| {
            set_ready(node, "True", &shown);
        });
        if written.is_ok() {
            self.reported = at;
            self.health = Health::Ready;
        }
        self.next_report = at.after(REPORT.mul_f64(1.0 + JITTER * rng.f64()));
    }

    /// Cuts the kubelet off, or lets it through again. It has to be settled before.
    pub(crate) fn set_cut(&mut self, is_cut: bool, now: Time, rng: &mut Rng) {
        if self.is_cut && !is_cut {
            let wait = retry(rng);
            self.next_renewal = self.next_renewal.max(now.after(wait));
            if self.health != Health::Ready {
                self.hurry_report(now.after(wait));
            }
            self.next_report = self.next_report.max(now.after(wait));
        }
        self.is_cut = is_cut;
    }

    /// A kubelet that sees that others take it for dead says otherwise soon.
    pub(crate) fn hurry_report(&mut self, at: Time) {
        self.next_report = self.next_report.min(at);
    }

    /// It does not reach its API server.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn set_offset(&mut self, micros: i64) {
        self.offset = micros;
    }

    /// Turns it Unknown, as kube-controller-manager does.
    pub(crate) fn turn_unknown(&mut self, store: &Store, now: Time, rng: &mut Rng) {
        let shown = clock::seconds(now);
        // A node that somebody has deleted cannot be marked any more.
        let _ = store.modify(&NODES, "", &self.name, Part::Status, |node| {
            set_ready(node, "Unknown", &shown);
        });
        self.taint(store, true);
        self.health = Health::Unknown(now);
        self.hurry_report(now.after(retry(rng)));
    }

    /// Keeps pods away from it, or lets them come again.
    pub(crate) fn taint(&self, store: &Store, is_tainted: bool) {
        let taints = json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }]);
        let _ = store.modify(&NODES, "", &self.name, Part::Object, |node| {
            if is_tainted {
                field::set(node, "/spec/taints", taints);
            } else if let Some(Value::Object(spec)) = node.get_mut("spec") {
                spec.remove("taints");
            }
        });
    }

    /// Its Node and its Lease go.
    pub(crate) fn leave(&self, store: &Store) {
        let how = crate::store::Deletion::now();
        let _ = store.delete(&NODES, "", &self.name, &how);
        let _ = store.delete(&LEASES, NAMESPACE, &self.name, &how);
    }
}

fn retry(rng: &mut Rng) -> Duration {
    SOONEST_RETRY + RETRIES.mul_f64(rng.f64())
}

fn set_ready(node: &mut Value, status: &str, at: &str) {
    let Some(ready) = field::condition(node, "Ready") else {
        return;
    };
    let (reason, message) = match status {
        "True" => ("KubeletReady", "kubelet is posting ready status"),
        _ => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
    };
    if ready.get("status").and_then(Value::as_str) != Some(status) {
        ready.insert("lastTransitionTime".into(), at.into());
    }
    if status == "True" {
        ready.insert("lastHeartbeatTime".into(), at.into());
    }
    ready.insert("status".into(), status.into());
    ready.insert("reason".into(), reason.into());
    ready.insert("message".into(), message.into());
}

fn object(name: &str, zone: usize, now: Time) -> Value {
    let now = clock::seconds(now);
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "topology.kubernetes.io/zone": format!("zone-{zone}"),
                "worker.gardener.cloud/pool": "pool",
            },
        },
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
            // All of it: there are clients that take a node for broken whose kubelet leaves something out.
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.2.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": VERSION.2,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": "",
            },
        },
    })
}

fn lease(name: &str, now: Time, seconds: u64, owner: &Value) -> Value {
    let mut lease = json!({
        "metadata": { "name": name },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": now.to_string(),
        },
    });
    if !owner.is_null() {
        lease["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": owner }]);
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const PACE: Pace = Pace {
        renewal: Duration::from_secs(10),
        lease_seconds: 40,
    };

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_node_goes_on_whatever_others_have_made_of_its_objects() {
        for rubbish in [
            json!("x"),
            json!([]),
            json!({ "conditions": "x", "taints": 1 }),
        ] {
            let store = Store::new(Clock::new(|| at(0)), 1);
            let mut rng = Rng::with_seed(1);
            let mut node = Node::join(&store, ("n".into(), 0, 0), PACE, at(0), &mut rng);
            let spoil = |object: &mut Value| {
                object["spec"] = rubbish.clone();
                object["status"] = rubbish.clone();
            };
            let places = [(&LEASES, NAMESPACE), (&NODES, "")];
            for (resource, namespace) in places {
                for part in [Part::Object, Part::Status] {
                    let spoilt = store.modify(resource, namespace, "n", part, spoil);
                    spoilt.unwrap();
                }
            }
            node.turn_unknown(&store, at(50), &mut rng);
            let shown = store.get(&NODES, "", "n").unwrap();
            assert_eq!(shown["status"]["conditions"][0]["status"], "Unknown");
            assert_eq!(shown["spec"]["taints"][0]["effect"], "NoExecute");
            node.settle(&store, PACE, at(400), &mut rng);
            node.taint(&store, false);
            let shown = store.get(&NODES, "", "n").unwrap();
            assert_eq!(shown["status"]["conditions"][0]["status"], "True");
            assert!(shown["spec"]["taints"].is_null(), "{shown}");
            let lease = store.get(&LEASES, NAMESPACE, "n").unwrap();
            assert!(lease["spec"]["renewTime"].is_string(), "{lease}");
        }
    }
}
