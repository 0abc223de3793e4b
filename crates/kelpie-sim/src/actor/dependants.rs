//! Pods that crash while what they need is gone, and the etcd service that they need.

use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use crate::resource::{ENDPOINT_SLICES, PODS, SERVICES};
use crate::store::{Deletion, Part, Store};

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

/// The etcd of a cluster as others see it, and the pod that depends on it.
#[derive(Debug)]
pub(crate) struct Dependants {
    namespace: String,
    is_served: bool,
    state: State,
    back_off: Duration,
    restarts: u64,
    /// Pods are made anew when they are deleted.
    made: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Since when.
    Runs(Time),
    /// Crashes then.
    Dying(Time),
    /// Starts again then.
    Waits(Time),
}

/// What happened to the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Started,
    /// And it is not started before so long.
    Crashed(Duration),
    /// Somebody deleted it, and there is a new one.
    Replaced,
}

impl Dependants {
    /// Makes the service, its endpoints and the pod.
    pub(crate) fn new(seed: &Store, namespace: &str, now: Time) -> Self {
        let service = json!({
            "metadata": { "name": SERVICE },
            "spec": { "ports": [{ "name": "client", "port": 2379 }], "selector": { "app": "etcd" } },
        });
        let _ = seed.create(&SERVICES, namespace, service);
        let _ = seed.create(&ENDPOINT_SLICES, namespace, endpoints(true));
        let mut dependants = Self {
            namespace: namespace.to_owned(),
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
            |slice| slice["endpoints"] = ready["endpoints"].clone(),
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
            State::Dying(at) | State::Waits(at) => Some(at),
        }
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, seed: &Store, now: Time) -> Option<Turn> {
        if !self.is_up() && seed.get(&PODS, &self.namespace, &self.pod()).is_err() {
            self.back_off = BACK_OFF.0;
            self.restarts = 0;
            self.made += 1;
            self.make(seed);
            self.start(now);
            return Some(Turn::Replaced);
        }
        match self.state {
            State::Runs(since) if now >= since.after(WELL) => {
                self.back_off = BACK_OFF.0;
                None
            }
            State::Waits(at) if now >= at => {
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

    fn make(&mut self, seed: &Store) {
        let pod = json!({
            "metadata": {
                "name": self.pod(),
                "labels": { "app": "kubernetes", "role": "apiserver" },
            },
            "spec": { "containers": [{ "name": APP, "image": "none" }] },
        });
        // Whoever took the name has to give it back first.
        let _ = seed.delete(&PODS, &self.namespace, &self.pod(), &Deletion::now());
        let _ = seed.create(&PODS, &self.namespace, pod);
        self.show(seed);
    }

    fn show(&self, seed: &Store) {
        let state = match self.state {
            State::Waits(_) => json!({ "waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting failed container {APP}"),
            } }),
            _ => json!({ "running": {} }),
        };
        let container = json!({
            "name": APP,
            "image": "none",
            "imageID": "",
            "ready": self.is_up(),
            "restartCount": self.restarts,
            "state": state,
        });
        let pod = self.pod();
        let _ = seed.modify(&PODS, &self.namespace, &pod, Part::Status, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["containerStatuses"] = json!([container]);
        });
    }
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
        let mut dependants = Dependants::new(&seed, "default", at(0));
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
        seed.delete(&PODS, "default", "kube-apiserver-0", &Deletion::now())
            .unwrap();
        assert_eq!(turns(&mut dependants, &seed, 120..122), [Turn::Replaced]);
        assert!(dependants.is_up());
    }
}
