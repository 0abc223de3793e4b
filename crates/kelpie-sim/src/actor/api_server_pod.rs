//! The kube-apiserver pod of a control plane, which crashes without etcd, and the etcd Service it
//! depends on.

use std::fmt;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use super::POD_START;
use crate::field;
use crate::resource::{ENDPOINT_SLICES, PODS, REPLICA_SETS, SERVICES};
use crate::store::{ObjectStore, WriteScope};

/// The name of the etcd Service.
const SERVICE: &str = "etcd-main-client";

/// The name of the container, and the prefix of the pod's name.
const APP: &str = "kube-apiserver";

/// The shortest and longest delay before the kubelet restarts a crashed container. It doubles with
/// each crash.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(5));

/// A container that has run for this long restarts with the shortest delay again.
const BACK_OFF_RESET: Duration = Duration::from_mins(10);

/// The time after which a container without etcd crashes.
const CRASH_DELAY: Duration = Duration::from_secs(2);

/// The `ReplicaSet` that owns the pod and replaces it.
const REPLICA_SET: &str = "kube-apiserver-6b5c8d7f9c";

/// The kube-apiserver pod of a cluster, and its etcd Service as the seed shows it.
#[derive(Debug)]
pub(crate) struct ApiServerPod {
    namespace: String,
    /// The UID of the `ReplicaSet`.
    owner: Value,
    is_etcd_ready: bool,
    state: ContainerState,
    back_off: Duration,
    restarts: u64,
    /// The number of the current pod, which is part of its name.
    pod_number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerState {
    /// A new pod, which starts at this time.
    Creating(Time),
    /// Running since this time.
    Running(Time),
    /// Without etcd, crashes at this time.
    Crashing(Time),
    /// Waiting for its restart at this time.
    BackOff(Time),
}

/// A change of the kube-apiserver pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodTransition {
    /// The container has started.
    Started,
    /// The container crashed, and restarts after this delay.
    Crashed(Duration),
    /// The pod was deleted, and the `ReplicaSet` has created a new one.
    Replaced,
}

impl fmt::Display for PodTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("starts"),
            Self::Crashed(back_off) => write!(f, "crashes and restarts in {back_off:?}"),
            Self::Replaced => f.write_str("was deleted and recreated"),
        }
    }
}

impl ApiServerPod {
    /// Creates the Service, its endpoints and the pod.
    pub(crate) fn new(seed: &ObjectStore, namespace: &str, now: Time) -> Self {
        let service = json!({
            "metadata": { "name": SERVICE },
            "spec": {
                "ports": [{ "name": "client", "port": 2379 }],
                "selector": { "app": "etcd" },
            },
        });
        let _ = seed.create(&SERVICES, namespace, service);
        let _ = seed.create(&ENDPOINT_SLICES, namespace, endpoints(true));
        let owner = seed.create(&REPLICA_SETS, namespace, replica_set());
        let api_server = Self {
            namespace: namespace.to_owned(),
            owner: owner
                .map(|owner| owner["metadata"]["uid"].clone())
                .unwrap_or_default(),
            is_etcd_ready: true,
            state: ContainerState::Running(now),
            back_off: BACK_OFF.0,
            restarts: 0,
            pod_number: 0,
        };
        api_server.create_pod(seed);
        api_server
    }

    /// Takes etcd down or up. The pod recovers by itself after its back-off.
    pub(crate) fn set_etcd_ready(&mut self, seed: &ObjectStore, is_etcd_ready: bool, now: Time) {
        self.is_etcd_ready = is_etcd_ready;
        let wanted = endpoints(is_etcd_ready);
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let change = |slice: &mut Value| {
            field::set(slice, "/endpoints", wanted["endpoints"].clone());
        };
        let scope = WriteScope::Object;
        let _ = seed.modify(&ENDPOINT_SLICES, &self.namespace, name, scope, change);
        if !is_etcd_ready && let ContainerState::Running(_) = self.state {
            self.state = ContainerState::Crashing(now.after(CRASH_DELAY));
        }
    }

    /// Returns whether the container runs and has etcd.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running(_))
    }

    /// Returns the next time at which [`ApiServerPod::step`] has work to do.
    pub(crate) fn next_action(&self) -> Option<Time> {
        match self.state {
            ContainerState::Running(_) => None,
            ContainerState::Creating(at)
            | ContainerState::Crashing(at)
            | ContainerState::BackOff(at) => Some(at),
        }
    }

    /// Handles the deletion of a pod. If it is this one, the `ReplicaSet` creates another.
    pub(crate) fn on_pod_deleted(
        &mut self,
        seed: &ObjectStore,
        pod: &str,
        now: Time,
    ) -> Option<PodTransition> {
        if pod != self.pod_name() {
            return None;
        }
        self.back_off = BACK_OFF.0;
        self.restarts = 0;
        self.pod_number += 1;
        self.state = ContainerState::Creating(now.after(POD_START));
        self.create_pod(seed);
        Some(PodTransition::Replaced)
    }

    /// Does the work that is due at `now`.
    pub(crate) fn step(&mut self, seed: &ObjectStore, now: Time) -> Option<PodTransition> {
        let pod = self.pod_name();
        if !self.is_running() && seed.get(&PODS, &self.namespace, &pod).is_err() {
            return self.on_pod_deleted(seed, &pod, now);
        }
        match self.state {
            ContainerState::Running(since) if now >= since.after(BACK_OFF_RESET) => {
                self.back_off = BACK_OFF.0;
                None
            }
            ContainerState::Creating(at) | ContainerState::BackOff(at) if now >= at => {
                self.state = if self.is_etcd_ready {
                    ContainerState::Running(now)
                } else {
                    ContainerState::Crashing(now.after(CRASH_DELAY))
                };
                self.write_status(seed);
                Some(PodTransition::Started)
            }
            ContainerState::Crashing(at) if now >= at => {
                let delay = self.back_off;
                self.state = ContainerState::BackOff(now.after(delay));
                self.back_off = (delay * 2).min(BACK_OFF.1);
                self.restarts += 1;
                self.write_status(seed);
                Some(PodTransition::Crashed(delay))
            }
            _ => None,
        }
    }

    fn pod_name(&self) -> String {
        format!("{APP}-{}", self.pod_number)
    }

    fn create_pod(&self, seed: &ObjectStore) {
        let pod = json!({
            "metadata": {
                "name": self.pod_name(),
                "labels": labels(),
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": REPLICA_SET,
                    "uid": self.owner,
                    "controller": true,
                }],
            },
            "spec": { "containers": [{ "name": APP, "image": "none" }] },
        });
        let _ = seed.create(&PODS, &self.namespace, pod);
        self.write_status(seed);
    }

    fn write_status(&self, seed: &ObjectStore) {
        let state = match self.state {
            ContainerState::Creating(_) => json!({ "waiting": { "reason": "ContainerCreating" } }),
            ContainerState::BackOff(_) => json!({ "waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting failed container {APP}"),
            } }),
            ContainerState::Running(_) | ContainerState::Crashing(_) => json!({ "running": {} }),
        };
        let last_state = match self.restarts {
            0 => json!({}),
            _ => json!({ "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": format!("{SERVICE}:2379: connection refused"),
            } }),
        };
        let phase = match self.state {
            ContainerState::Creating(_) => "Pending",
            _ => "Running",
        };
        let container = json!({
            "name": APP,
            "image": "none",
            "imageID": "",
            "ready": self.is_running(),
            "restartCount": self.restarts,
            "state": state,
            "lastState": last_state,
        });
        let pod = self.pod_name();
        let _ = seed.modify(&PODS, &self.namespace, &pod, WriteScope::Status, |pod| {
            field::set(pod, "/status/phase", phase);
            field::set(pod, "/status/containerStatuses", json!([container]));
        });
    }
}

/// Returns the labels by which the weeder selects the pod.
fn labels() -> Value {
    json!({ "app": "kubernetes", "gardener.cloud/role": "controlplane", "role": "apiserver" })
}

fn replica_set() -> Value {
    json!({
        "metadata": { "name": REPLICA_SET },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels() },
            "template": {
                "metadata": { "labels": labels() },
                "spec": { "containers": [{ "name": APP, "image": "none" }] },
            },
        },
    })
}

fn endpoints(is_ready: bool) -> Value {
    json!({
        "metadata": {
            "name": format!("{SERVICE}-0"),
            "labels": { "kubernetes.io/service-name": SERVICE },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": is_ready } }],
        "ports": [{ "name": "client", "port": 2379 }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimClock;
    use crate::store::DeleteOptions;

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    fn transitions(
        pod: &mut ApiServerPod,
        seed: &ObjectStore,
        seconds: std::ops::Range<u64>,
    ) -> Vec<PodTransition> {
        let steps = seconds.filter_map(|second| pod.step(seed, at(second)));
        steps.collect()
    }

    #[test]
    fn back_off_doubles_until_pod_deleted() {
        let seed = ObjectStore::new(SimClock::new(|| at(0)), 1);
        let mut pod = ApiServerPod::new(&seed, "default", at(0));
        pod.set_etcd_ready(&seed, false, at(5));
        let seen = transitions(&mut pod, &seed, 5..100);
        let crashed = |seconds| PodTransition::Crashed(Duration::from_secs(seconds));
        assert_eq!(
            seen,
            [
                crashed(10),
                PodTransition::Started,
                crashed(20),
                PodTransition::Started,
                crashed(40),
                PodTransition::Started,
                crashed(80),
            ]
        );
        pod.set_etcd_ready(&seed, true, at(100));
        assert_eq!(transitions(&mut pod, &seed, 100..120), []);
        let pod_name = "kube-apiserver-0";
        seed.delete(&PODS, "default", pod_name, &DeleteOptions::immediate())
            .unwrap();
        assert_eq!(pod.on_pod_deleted(&seed, "another", at(120)), None);
        let replaced = pod.on_pod_deleted(&seed, pod_name, at(120));
        assert_eq!(replaced, Some(PodTransition::Replaced));
        assert_eq!(transitions(&mut pod, &seed, 120..125), []);
        assert_eq!(
            transitions(&mut pod, &seed, 125..127),
            [PodTransition::Started]
        );
        assert!(pod.is_running());
    }
}
