//! Pods that crash while what they need is gone, and the etcd service that they need.

use std::fmt;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use crate::field;
use crate::resource::{ENDPOINT_SLICES, PODS, REPLICA_SETS, SERVICES};
use crate::store::{Part, Store};

/// The service that goes and comes.
const SERVICE: &str = "etcd-main-client";

/// The pod that needs it.
const APP: &str = "kube-apiserver";

/// A kubelet starts a crashed container again after so long, ever more slowly.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(5));

/// A container that lives so long is well again, and begins with the shortest back-off.
const WELL: Duration = Duration::from_mins(10);

/// A container that misses what it needs crashes after so long.
const LIFE: Duration = Duration::from_secs(2);

/// The controller that makes the pod anew when it is gone.
const OWNER: &str = "kube-apiserver-6b5c8d7f9c";

/// The etcd of a cluster as others see it, and the pod that depends on it.
#[derive(Debug)]
pub(crate) struct Dependants {
    namespace: String,
    /// The uid of that controller.
    owner: Value,
    /// A new pod takes so long to start.
    boot: Duration,
    is_served: bool,
    state: State,
    back_off: Duration,
    restarts: u64,
    /// Pods are made anew when they are deleted.
    made: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A new pod, which starts then.
    New(Time),
    /// Since when.
    Runs(Time),
    /// Crashes then.
    Dying(Time),
    /// Starts again then.
    Waits(Time),
}

/// What happened to a pod that needs etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs.
    Started,
    /// And it is not started again before so long.
    Crashed(Duration),
    /// Somebody deleted it, and there is a new one.
    Replaced,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("starts"),
            Self::Crashed(wait) => write!(f, "crashes and waits for {wait:?}"),
            Self::Replaced => f.write_str("was deleted and is made anew"),
        }
    }
}

impl Dependants {
    /// Makes the service, its endpoints and the pod; a new one takes `boot` to start.
    pub(crate) fn new(seed: &Store, namespace: &str, boot: Duration, now: Time) -> Self {
        let service = json!({
            "metadata": { "name": SERVICE },
            "spec": { "ports": [{ "name": "client", "port": 2379 }], "selector": { "app": "etcd" } },
        });
        let _ = seed.create(&SERVICES, namespace, service);
        let _ = seed.create(&ENDPOINT_SLICES, namespace, endpoints(true));
        let owner = seed.create(&REPLICA_SETS, namespace, replica_set());
        let dependants = Self {
            namespace: namespace.to_owned(),
            owner: owner
                .map(|owner| owner["metadata"]["uid"].clone())
                .unwrap_or_default(),
            boot,
            is_served: true,
            state: State::Runs(now),
            back_off: BACK_OFF.0,
            restarts: 0,
            made: 0,
        };
        dependants.make(seed);
        dependants
    }

    /// The etcd goes, or comes back. What runs by itself comes back by itself, some time.
    pub(crate) fn serve(&mut self, seed: &Store, is_served: bool, now: Time) {
        self.is_served = is_served;
        let ready = endpoints(is_served);
        let name = ready["metadata"]["name"].as_str().unwrap_or_default();
        let _ = seed.modify(
            &ENDPOINT_SLICES,
            &self.namespace,
            name,
            Part::Object,
            |slice| field::set(slice, "/endpoints", ready["endpoints"].clone()),
        );
        if !is_served && let State::Runs(_) = self.state {
            self.state = State::Dying(now.after(LIFE));
        }
    }

    /// Whether the pod runs.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Runs(_))
    }

    /// When it next has to act, if it has to.
    pub(crate) fn next(&self) -> Option<Time> {
        match self.state {
            State::Runs(_) => None,
            State::New(at) | State::Dying(at) | State::Waits(at) => Some(at),
        }
    }

    /// A pod is gone: if it is this one, its controller makes another.
    pub(crate) fn miss(&mut self, seed: &Store, pod: &str, now: Time) -> Option<Turn> {
        if pod != self.pod() {
            return None;
        }
        self.back_off = BACK_OFF.0;
        self.restarts = 0;
        self.made += 1;
        self.state = State::New(now.after(self.boot));
        self.make(seed);
        Some(Turn::Replaced)
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, seed: &Store, now: Time) -> Option<Turn> {
        let pod = self.pod();
        if !self.is_up() && seed.get(&PODS, &self.namespace, &pod).is_err() {
            return self.miss(seed, &pod, now);
        }
        match self.state {
            State::Runs(since) if now >= since.after(WELL) => {
                self.back_off = BACK_OFF.0;
                None
            }
            State::New(at) | State::Waits(at) if now >= at => {
                self.start(now);
                self.show(seed);
                Some(Turn::Started)
            }
            State::Dying(at) if now >= at => {
                let wait = self.back_off;
                self.state = State::Waits(now.after(wait));
                self.back_off = (wait * 2).min(BACK_OFF.1);
                self.restarts += 1;
                self.show(seed);
                Some(Turn::Crashed(wait))
            }
            _ => None,
        }
    }

    fn start(&mut self, now: Time) {
        self.state = if self.is_served {
            State::Runs(now)
        } else {
            State::Dying(now.after(LIFE))
        };
    }

    fn pod(&self) -> String {
        format!("{APP}-{}", self.made)
    }

    fn make(&self, seed: &Store) {
        let pod = json!({
            "metadata": {
                "name": self.pod(),
                "labels": labels(),
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": OWNER,
                    "uid": self.owner,
                    "controller": true,
                }],
            },
            "spec": { "containers": [{ "name": APP, "image": "none" }] },
        });
        let _ = seed.create(&PODS, &self.namespace, pod);
        self.show(seed);
    }

    fn show(&self, seed: &Store) {
        let state = match self.state {
            State::New(_) => json!({ "waiting": { "reason": "ContainerCreating" } }),
            State::Waits(_) => json!({ "waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting failed container {APP}"),
            } }),
            State::Runs(_) | State::Dying(_) => json!({ "running": {} }),
        };
        let last = match self.restarts {
            0 => json!({}),
            _ => json!({ "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": format!("{SERVICE}:2379: connection refused"),
            } }),
        };
        let phase = match self.state {
            State::New(_) => "Pending",
            _ => "Running",
        };
        let container = json!({
            "name": APP,
            "image": "none",
            "imageID": "",
            "ready": self.is_up(),
            "restartCount": self.restarts,
            "state": state,
            "lastState": last,
        });
        let pod = self.pod();
        let _ = seed.modify(&PODS, &self.namespace, &pod, Part::Status, |pod| {
            field::set(pod, "/status/phase", phase);
            field::set(pod, "/status/containerStatuses", json!([container]));
        });
    }
}

/// By which others know the pod.
fn labels() -> Value {
    json!({ "app": "kubernetes", "gardener.cloud/role": "controlplane", "role": "apiserver" })
}

fn replica_set() -> Value {
    json!({
        "metadata": { "name": OWNER },
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
    use crate::clock::Clock;
    use crate::store::Deletion;

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    fn turns(
        dependants: &mut Dependants,
        seed: &Store,
        seconds: std::ops::Range<u64>,
    ) -> Vec<Turn> {
        let steps = seconds.filter_map(|second| dependants.step(seed, at(second)));
        steps.collect()
    }

    #[test]
    fn the_back_off_doubles_until_somebody_deletes_the_pod() {
        let seed = Store::new(Clock::new(|| at(0)), 1);
        let boot = Duration::from_secs(5);
        let mut dependants = Dependants::new(&seed, "default", boot, at(0));
        dependants.serve(&seed, false, at(5));
        let turns_seen = turns(&mut dependants, &seed, 5..100);
        let crashed = |seconds| Turn::Crashed(Duration::from_secs(seconds));
        assert_eq!(
            turns_seen,
            [
                crashed(10),
                Turn::Started,
                crashed(20),
                Turn::Started,
                crashed(40),
                Turn::Started,
                crashed(80),
            ]
        );
        dependants.serve(&seed, true, at(100));
        assert_eq!(turns(&mut dependants, &seed, 100..120), []);
        let pod = "kube-apiserver-0";
        seed.delete(&PODS, "default", pod, &Deletion::now())
            .unwrap();
        assert_eq!(dependants.miss(&seed, "another", at(120)), None);
        let missed = dependants.miss(&seed, pod, at(120));
        assert_eq!(missed, Some(Turn::Replaced));
        assert_eq!(turns(&mut dependants, &seed, 120..125), []);
        assert_eq!(turns(&mut dependants, &seed, 125..127), [Turn::Started]);
        assert!(dependants.is_up());
    }
}
