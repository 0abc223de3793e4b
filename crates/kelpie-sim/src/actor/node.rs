//! A node, its kubelet and its lease.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;
use serde_json::{Value, json};

use crate::clock;
use crate::field;
use crate::landscape::LandscapePlan;
use crate::resource::{LEASES, NODES};
use crate::server::VERSION;
use crate::store::{ObjectStore, WriteScope};

/// The namespace of the nodes' leases.
pub(crate) const NAMESPACE: &str = "kube-node-lease";

/// The shortest delay before a kubelet retries a failed request, and the range of the random delay
/// on top. The longest is about a renew interval.
const SOONEST_RETRY: Duration = Duration::from_millis(200);
const RETRY_SPREAD: Duration = Duration::from_millis(9_800);

/// The interval at which a kubelet renews its lease, and the duration that it writes there.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const LEASE_DURATION_SECONDS: u64 = 40;

/// The largest delay of a renewal, as a share of the interval.
const JITTER: f64 = 0.04;

/// The interval at which a kubelet reports an unchanged status.
const STATUS_REPORT_INTERVAL: Duration = Duration::from_mins(5);

/// A node, and what its controllers know about it.
#[derive(Debug)]
pub(crate) struct SimNode {
    pub(crate) name: Arc<str>,
    /// The index in the cluster, by which faults select a share of the nodes.
    pub(crate) number: usize,
    pub(crate) zone: usize,
    pub(crate) readiness: NodeReadiness,
    /// The real time of the last renewal, by a correct clock.
    pub(crate) renewed: Time,
    /// The time between the last renewal and the one before it.
    pub(crate) previous_gap: Duration,
    /// The real time of the last status report.
    pub(crate) reported: Time,
    /// The memory of kube-controller-manager about this node.
    pub(crate) health_data: NodeHealthData,
    /// True while a fault keeps the kubelet from its API server.
    pub(crate) is_cut_off: bool,
    /// The error of the node's clock, in microseconds.
    pub(crate) clock_offset: i64,
    next_renewal: Time,
    next_report: Time,
}

/// The status of the node's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeReadiness {
    Ready,
    /// Unknown since this time.
    Unknown(Time),
}

/// The observations of one kube-controller-manager process about a node, like its `nodeHealthData`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeHealthData {
    pub(crate) renew_time: Option<Time>,
    pub(crate) reported: Option<Time>,
    /// The last time at which a renewal or a status report was observed.
    pub(crate) probe_timestamp: Option<Time>,
    /// The time since which the node is tainted as unreachable.
    pub(crate) tainted_since: Option<Time>,
    pub(crate) is_evicted: bool,
}

impl SimNode {
    /// Creates the Node and the Lease of a node that joins now.
    pub(crate) fn join(
        store: &ObjectStore,
        (name, number): (Arc<str>, usize),
        now: Time,
        rng: &mut Rng,
    ) -> Self {
        let zone = number % LandscapePlan::ZONES;
        let node = store.create(&NODES, "", node_object(&name, zone, now));
        let owner = node.map(|node| node["metadata"]["uid"].clone());
        let lease = lease_object(&name, now, &owner.unwrap_or_default());
        // An existing Lease of this name belongs to the node.
        let _ = store.create(&LEASES, NAMESPACE, lease);
        Self {
            name,
            number,
            zone,
            readiness: NodeReadiness::Ready,
            renewed: now,
            previous_gap: Duration::ZERO,
            reported: now,
            health_data: NodeHealthData::default(),
            is_cut_off: false,
            clock_offset: 0,
            next_renewal: now.after(RENEW_INTERVAL.mul_f64(rng.f64())),
            next_report: now.after(STATUS_REPORT_INTERVAL.mul_f64(rng.f64())),
        }
    }

    /// Makes the renewals and reports that are due until `now`.
    pub(crate) fn catch_up(&mut self, store: &ObjectStore, now: Time, rng: &mut Rng) {
        if self.is_cut_off {
            return;
        }
        while self.next_renewal <= now {
            let at = self.next_renewal;
            if store.renew(NAMESPACE, &self.name, self.shown(at)).is_ok() {
                self.previous_gap = at.since(self.renewed);
                self.renewed = at;
            }
            self.next_renewal = at.after(RENEW_INTERVAL.mul_f64(1.0 + JITTER * rng.f64()));
        }
        if self.next_report <= now {
            self.report_ready(store, rng);
        }
    }

    /// Returns what the node's clock shows at `at`.
    fn shown(&self, at: Time) -> Time {
        Time::from_micros(at.as_micros().saturating_add(self.clock_offset))
    }

    /// Reports Ready, which makes the node Ready at once.
    fn report_ready(&mut self, store: &ObjectStore, rng: &mut Rng) {
        let at = self.next_report;
        let shown = clock::rfc3339(self.shown(at));
        let written = store.modify(&NODES, "", &self.name, WriteScope::Status, |node| {
            set_ready(node, "True", &shown);
        });
        if written.is_ok() {
            self.reported = at;
            self.readiness = NodeReadiness::Ready;
        }
        self.next_report = at.after(STATUS_REPORT_INTERVAL.mul_f64(1.0 + JITTER * rng.f64()));
    }

    /// Cuts the kubelet off, or reconnects it. Call [`SimNode::catch_up`] first.
    pub(crate) fn set_cut_off(&mut self, is_cut_off: bool, now: Time, rng: &mut Rng) {
        if self.is_cut_off && !is_cut_off {
            let wait = retry_delay(rng);
            self.next_renewal = self.next_renewal.max(now.after(wait));
            if self.readiness != NodeReadiness::Ready {
                self.report_by(now.after(wait));
            }
            self.next_report = self.next_report.max(now.after(wait));
        }
        self.is_cut_off = is_cut_off;
    }

    /// Makes the kubelet report its status by `at`, because the API server shows it as Unknown.
    pub(crate) fn report_by(&mut self, at: Time) {
        self.next_report = self.next_report.min(at);
    }

    /// Marks the node as Unknown, as kube-controller-manager does.
    pub(crate) fn turn_unknown(&mut self, store: &ObjectStore, now: Time, rng: &mut Rng) {
        let shown = clock::rfc3339(now);
        // The Node may have been deleted by a client.
        let _ = store.modify(&NODES, "", &self.name, WriteScope::Status, |node| {
            set_ready(node, "Unknown", &shown);
        });
        self.taint(store, true);
        self.readiness = NodeReadiness::Unknown(now);
        self.report_by(now.after(retry_delay(rng)));
    }

    /// Sets or removes the taint of unreachable nodes.
    pub(crate) fn taint(&self, store: &ObjectStore, is_tainted: bool) {
        let taints = json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }]);
        let _ = store.modify(&NODES, "", &self.name, WriteScope::Object, |node| {
            if is_tainted {
                field::set(node, "/spec/taints", taints);
            } else if let Some(Value::Object(spec)) = node.get_mut("spec") {
                spec.remove("taints");
            }
        });
    }

    /// Deletes the Node and its Lease.
    pub(crate) fn leave(&self, store: &ObjectStore) {
        let options = crate::store::DeleteOptions::immediate();
        let _ = store.delete(&NODES, "", &self.name, &options);
        let _ = store.delete(&LEASES, NAMESPACE, &self.name, &options);
    }
}

fn retry_delay(rng: &mut Rng) -> Duration {
    SOONEST_RETRY + RETRY_SPREAD.mul_f64(rng.f64())
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

fn node_object(name: &str, zone: usize, now: Time) -> Value {
    let now = clock::rfc3339(now);
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
            // Complete, because some clients reject a node with missing fields.
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

fn lease_object(name: &str, now: Time, owner: &Value) -> Value {
    let mut lease = json!({
        "metadata": { "name": name },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
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
    use crate::clock::SimClock;

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    #[test]
    fn node_survives_corrupted_objects() {
        for garbage in [
            json!("x"),
            json!([]),
            json!({ "conditions": "x", "taints": 1 }),
        ] {
            let store = ObjectStore::new(SimClock::new(|| at(0)), 1);
            let mut rng = Rng::with_seed(1);
            let mut node = SimNode::join(&store, ("n".into(), 0), at(0), &mut rng);
            let corrupt = |object: &mut Value| {
                object["spec"] = garbage.clone();
                object["status"] = garbage.clone();
            };
            let places = [(&LEASES, NAMESPACE), (&NODES, "")];
            for (resource, namespace) in places {
                for scope in [WriteScope::Object, WriteScope::Status] {
                    let corrupted = store.modify(resource, namespace, "n", scope, corrupt);
                    corrupted.unwrap();
                }
            }
            node.turn_unknown(&store, at(50), &mut rng);
            let shown = store.get(&NODES, "", "n").unwrap();
            assert_eq!(shown["status"]["conditions"][0]["status"], "Unknown");
            assert_eq!(shown["spec"]["taints"][0]["effect"], "NoExecute");
            node.catch_up(&store, at(400), &mut rng);
            node.taint(&store, false);
            let shown = store.get(&NODES, "", "n").unwrap();
            assert_eq!(shown["status"]["conditions"][0]["status"], "True");
            assert!(shown["spec"]["taints"].is_null(), "{shown}");
            let lease = store.get(&LEASES, NAMESPACE, "n").unwrap();
            assert!(lease["spec"]["renewTime"].is_string(), "{lease}");
        }
    }
}
