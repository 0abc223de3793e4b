//! The seed's Deployment controller, and the pods of its Deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use crate::clock;
use crate::field;
use crate::resource::DEPLOYMENTS;
use crate::store::{ObjectStore, WriteScope};

/// The namespace and name of a Deployment.
pub(crate) type DeploymentKey = (Arc<str>, Arc<str>);

/// The time between scaling a Deployment up and the start of its pods.
pub(crate) const POD_START: Duration = Duration::from_secs(5);

/// The time between scaling a Deployment down and the end of its pods.
const POD_STOP: Duration = Duration::from_secs(2);

/// Starts and stops pods to match the replicas of their Deployments, with a delay.
#[derive(Debug, Default)]
pub(crate) struct DeploymentController {
    /// The delays of active faults, which replace the usual ones, each with the fault's number.
    slowdowns: Vec<(usize, Duration)>,
    counts: BTreeMap<DeploymentKey, ReplicaCount>,
    /// The faults during which the controller stands still.
    outages: BTreeSet<usize>,
    /// The Deployments that were written during an outage, with the count before it.
    held: BTreeMap<DeploymentKey, u32>,
    /// The pod counts to come: time, Deployment and count.
    pending: BTreeSet<(Time, DeploymentKey, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ReplicaCount {
    wanted: u32,
    present: u32,
}

impl DeploymentController {
    /// Makes pods take `by` to start or stop until fault `number` ends. Of several faults the
    /// slowest counts.
    pub(crate) fn add_slowdown(&mut self, number: usize, by: Duration) {
        self.slowdowns.push((number, by));
    }

    /// Ends the slowdown of fault `number`.
    pub(crate) fn remove_slowdown(&mut self, number: usize) {
        self.slowdowns.retain(|(other, _)| *other != number);
    }

    /// Stops the controller until fault `number` ends. Pods that are about to start or stop still
    /// do; later writes to Deployments have no effect before the end.
    pub(crate) fn add_outage(&mut self, number: usize) {
        self.outages.insert(number);
    }

    /// Ends the outage of fault `number`.
    pub(crate) fn remove_outage(&mut self, number: usize, now: Time) {
        self.outages.remove(&number);
        if !self.outages.is_empty() {
            return;
        }
        for (key, before) in std::mem::take(&mut self.held) {
            let count = self.counts.entry(key.clone()).or_default();
            let wanted = std::mem::replace(&mut count.wanted, before);
            self.on_write(key, wanted, false, now);
        }
    }

    /// Adds a Deployment whose pods already run.
    pub(crate) fn add(&mut self, seed: &ObjectStore, key: DeploymentKey, count: u32, now: Time) {
        let (wanted, present) = (count, count);
        let count = ReplicaCount { wanted, present };
        write_status(seed, &key, count, now);
        self.counts.insert(key, count);
    }

    /// Returns the desired and the current number of pods.
    pub(crate) fn replica_count(&self, key: &DeploymentKey) -> (u32, u32) {
        let count = self.counts.get(key).copied().unwrap_or_default();
        (count.wanted, count.present)
    }

    /// Handles a write to a Deployment. `is_observed` tells whether its status is up to date.
    pub(crate) fn on_write(
        &mut self,
        key: DeploymentKey,
        wanted: u32,
        is_observed: bool,
        now: Time,
    ) {
        let count = self.counts.entry(key.clone()).or_default();
        let is_same = count.wanted == wanted;
        if is_same && (is_observed || self.pending.iter().any(|(_, other, _)| *other == key)) {
            return;
        }
        if !self.outages.is_empty() {
            self.held.entry(key).or_insert(count.wanted);
            count.wanted = wanted;
            return;
        }
        let scales_up = wanted > count.wanted;
        count.wanted = wanted;
        let delay = if scales_up { POD_START } else { POD_STOP };
        let slowdown = self.slowdowns.iter().map(|(_, by)| *by).max();
        let at = now.after(slowdown.unwrap_or(delay));
        // Pods that were about to start are not started any more. Later changes are about pods that
        // will not belong to the Deployment by then.
        self.pending.retain(|(when, other, then)| {
            *other != key || *when < at && (scales_up || *then <= wanted)
        });
        self.pending.insert((at, key, wanted));
    }

    /// Returns the time of the next change.
    pub(crate) fn next_change(&self) -> Option<Time> {
        self.pending.first().map(|(at, ..)| *at)
    }

    /// Makes the changes that are due. Returns the pod counts that are new.
    pub(crate) fn step(&mut self, seed: &ObjectStore, now: Time) -> Vec<(DeploymentKey, u32)> {
        let mut changed = Vec::new();
        while self.next_change().is_some_and(|at| at <= now)
            && let Some((_, key, present)) = self.pending.pop_first()
        {
            let count = self.counts.entry(key.clone()).or_default();
            let is_new = count.present != present;
            count.present = present;
            write_status(seed, &key, *count, now);
            if is_new {
                changed.push((key, present));
            }
        }
        changed
    }
}

/// Writes the Deployment's status. All existing pods are ready.
fn write_status(
    seed: &ObjectStore,
    (namespace, name): &DeploymentKey,
    count: ReplicaCount,
    now: Time,
) {
    // The Deployment may have been deleted.
    let write = |object: &mut Value| {
        let mut status = json!({
            "observedGeneration": object["metadata"]["generation"],
            "conditions": object["status"]["conditions"],
        });
        if count.present > 0 {
            for kind in [
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
            ] {
                status[kind] = count.present.into();
            }
        }
        field::set(object, "/status", status);
        write_conditions(object, count, &clock::rfc3339(now));
    };
    let _ = seed.modify(&DEPLOYMENTS, namespace, name, WriteScope::Status, write);
}

/// Writes the conditions that `kubectl wait` and `kubectl rollout status` read.
fn write_conditions(object: &mut Value, count: ReplicaCount, now: &str) {
    // The default `maxUnavailable` is 25 %.
    let is_available = count.present >= count.wanted - count.wanted / 4;
    let is_complete = count.present == count.wanted;
    let available = if is_available {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let (reason, message) = if is_complete {
        (
            "NewReplicaSetAvailable",
            "ReplicaSet has successfully progressed.",
        )
    } else {
        ("ReplicaSetUpdated", "ReplicaSet is progressing.")
    };
    let progressing = ("True", reason, message);
    for (kind, (status, reason, message)) in
        [("Available", available), ("Progressing", progressing)]
    {
        let Some(condition) = field::condition(object, kind) else {
            continue;
        };
        let differs =
            |field: &str, value: &str| condition.get(field).is_none_or(|old| *old != value);
        let (is_transition, is_update) = (differs("status", status), differs("reason", reason));
        if is_transition {
            condition.insert("lastTransitionTime".into(), now.into());
        }
        if is_update {
            condition.insert("lastUpdateTime".into(), now.into());
        }
        condition.insert("status".into(), status.into());
        condition.insert("reason".into(), reason.into());
        condition.insert("message".into(), message.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimClock;

    const LONG: Duration = Duration::from_secs(150);

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    struct Fixture {
        seed: ObjectStore,
        deployments: DeploymentController,
        key: DeploymentKey,
    }

    impl Fixture {
        fn new(count: u32) -> Self {
            let seed = ObjectStore::new(SimClock::new(|| at(0)), 1);
            let object = json!({ "metadata": { "name": "kcm" }, "spec": { "replicas": count } });
            seed.create(&DEPLOYMENTS, "default", object).unwrap();
            let key: DeploymentKey = ("default".into(), "kcm".into());
            let mut deployments = DeploymentController::default();
            deployments.add(&seed, key.clone(), count, at(0));
            Self {
                seed,
                deployments,
                key,
            }
        }

        /// Scales the Deployment, as a client does.
        fn scale(&mut self, wanted: u32, second: u64) {
            let scale = |object: &mut Value| field::set(object, "/spec/replicas", wanted);
            let scaled =
                self.seed
                    .modify(&DEPLOYMENTS, "default", "kcm", WriteScope::Object, scale);
            scaled.unwrap();
            self.deployments
                .on_write(self.key.clone(), wanted, false, at(second));
        }

        /// Steps through a range of seconds. Returns when the pod count changed, and to what.
        fn play(&mut self, seconds: std::ops::Range<u64>) -> Vec<(u64, u32)> {
            let mut seen = Vec::new();
            for second in seconds {
                let changed = self.deployments.step(&self.seed, at(second));
                seen.extend(changed.into_iter().map(|(_, count)| (second, count)));
            }
            seen
        }

        fn status(&self) -> Value {
            let object = self.seed.get(&DEPLOYMENTS, "default", "kcm").unwrap();
            object["status"].clone()
        }
    }

    #[test]
    fn scale_up_cancels_slow_scale_down() {
        let mut fixture = Fixture::new(1);
        fixture.deployments.add_slowdown(0, LONG);
        fixture.scale(0, 10);
        fixture.deployments.remove_slowdown(0);
        fixture.scale(1, 60);
        assert_eq!(fixture.play(0..300), []);
        assert_eq!(fixture.deployments.replica_count(&fixture.key), (1, 1));
        assert_eq!(fixture.status()["readyReplicas"], 1);
    }

    #[test]
    fn quick_scale_down_and_up_leaves_gap() {
        let mut fixture = Fixture::new(1);
        fixture.scale(0, 10);
        fixture.scale(1, 11);
        assert_eq!(fixture.play(0..300), [(12, 0), (16, 1)]);
    }

    #[test]
    fn last_scale_wins() {
        for first in 0..4 {
            for second in 0..4 {
                for last in 0..4 {
                    let mut fixture = Fixture::new(1);
                    fixture.deployments.add_slowdown(0, LONG);
                    fixture.scale(first, 10);
                    fixture.scale(second, 20);
                    fixture.deployments.remove_slowdown(0);
                    fixture.scale(last, 30);
                    fixture.play(0..300);
                    let found = fixture.deployments.replica_count(&fixture.key);
                    assert_eq!(found, (last, last), "{first} {second} {last}");
                }
            }
        }
    }

    #[test]
    fn slowest_active_fault_counts() {
        let mut fixture = Fixture::new(3);
        fixture.deployments.add_slowdown(0, Duration::from_secs(20));
        fixture.deployments.add_slowdown(1, Duration::from_secs(10));
        fixture.scale(2, 0);
        fixture.deployments.remove_slowdown(0);
        assert_eq!(fixture.play(0..100), [(20, 2)]);
        fixture.scale(1, 100);
        fixture.deployments.remove_slowdown(1);
        assert_eq!(fixture.play(100..200), [(110, 1)]);
        fixture.scale(0, 200);
        assert_eq!(fixture.play(200..300), [(202, 0)]);
    }

    #[test]
    fn writes_during_outage_take_effect_at_its_end() {
        let mut fixture = Fixture::new(1);
        fixture.scale(2, 0);
        fixture.deployments.add_outage(0);
        // The pod was about to start already.
        assert_eq!(fixture.play(0..10), [(5, 2)]);
        fixture.scale(1, 10);
        fixture.scale(0, 11);
        assert_eq!(fixture.play(10..60), []);
        assert_eq!(fixture.deployments.replica_count(&fixture.key), (0, 2));
        fixture.deployments.remove_outage(0, at(60));
        assert_eq!(fixture.play(60..100), [(62, 0)]);
    }

    #[test]
    fn conditions_show_availability_and_transition() {
        let mut fixture = Fixture::new(1);
        let shown = |fixture: &Fixture| {
            let status = fixture.status();
            let of = |condition: &Value| {
                ["type", "status", "reason", "lastTransitionTime"]
                    .map(|field| condition[field].as_str().unwrap_or_default().to_owned())
            };
            [&status["conditions"][0], &status["conditions"][1]].map(of)
        };
        let [started, stopped, restarted] = [0, 12, 16].map(|second| clock::rfc3339(at(second)));
        let complete = ["Progressing", "True", "NewReplicaSetAvailable", &started];
        let fine = ["Available", "True", "MinimumReplicasAvailable", &started];
        assert_eq!(shown(&fixture), [fine, complete]);
        fixture.scale(0, 10);
        fixture.scale(1, 11);
        // The status still belongs to the first generation.
        assert_eq!(fixture.status()["observedGeneration"], 1);
        fixture.play(0..13);
        assert_eq!(fixture.status()["observedGeneration"], 3);
        let missing = ["Available", "False", "MinimumReplicasUnavailable", &stopped];
        let begins = ["Progressing", "True", "ReplicaSetUpdated", &started];
        assert_eq!(shown(&fixture), [missing, begins]);
        fixture.play(13..30);
        let fine = ["Available", "True", "MinimumReplicasAvailable", &restarted];
        assert_eq!(shown(&fixture), [fine, complete]);
    }

    #[test]
    fn other_changes_update_observed_generation() {
        let mut fixture = Fixture::new(1);
        let annotate = |object: &mut Value| field::set(object, "/metadata/annotations/a", "b");
        let annotated =
            fixture
                .seed
                .modify(&DEPLOYMENTS, "default", "kcm", WriteScope::Object, annotate);
        annotated.unwrap();
        fixture
            .deployments
            .on_write(fixture.key.clone(), 1, false, at(10));
        assert_eq!(fixture.play(0..30), []);
        assert_eq!(fixture.status()["observedGeneration"], 2);
        fixture
            .deployments
            .on_write(fixture.key.clone(), 1, true, at(30));
        assert_eq!(fixture.deployments.next_change(), None);
    }
}
