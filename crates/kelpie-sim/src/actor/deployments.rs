//! The Deployment controller of the seed, with the pods it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use crate::clock;
use crate::field;
use crate::resource::DEPLOYMENTS;
use crate::store::{Part, Store};

/// A Deployment: its namespace and name.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// Pods that follow the replicas of their Deployments after a while.
#[derive(Debug)]
pub(crate) struct Deployments {
    start: Duration,
    stop: Duration,
    /// Faults that make pods take so long instead, each with its number.
    slow: Vec<(usize, Duration)>,
    all: BTreeMap<Key, Count>,
    /// What will have become of whose pods, and when.
    due: BTreeSet<(Time, Key, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    wanted: u32,
    present: u32,
}

impl Deployments {
    /// Pods start and stop so fast.
    pub(crate) fn new(start: Duration, stop: Duration) -> Self {
        Self {
            start,
            stop,
            slow: Vec::new(),
            all: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Pods take so long while the fault of this number lasts; of several the slowest counts.
    pub(crate) fn slow_down(&mut self, number: usize, by: Duration) {
        self.slow.push((number, by));
    }

    /// That fault is over.
    pub(crate) fn speed_up(&mut self, number: usize) {
        self.slow.retain(|(own, _)| *own != number);
    }

    /// A Deployment whose pods are there already.
    pub(crate) fn add(&mut self, seed: &Store, key: Key, count: u32, now: Time) {
        let (wanted, present) = (count, count);
        let count = Count { wanted, present };
        show(seed, &key, count, now);
        self.all.insert(key, count);
    }

    /// How many are wanted and how many are there.
    pub(crate) fn count(&self, key: &Key) -> (u32, u32) {
        let count = self.all.get(key).copied().unwrap_or_default();
        (count.wanted, count.present)
    }

    /// A Deployment was written; `is_observed` if its status is about what it says.
    pub(crate) fn see(&mut self, key: Key, wanted: u32, is_observed: bool, now: Time) {
        let count = self.all.entry(key.clone()).or_default();
        let is_same = count.wanted == wanted;
        if is_same && (is_observed || self.due.iter().any(|(_, own, _)| *own == key)) {
            return;
        }
        let grows = wanted > count.wanted;
        count.wanted = wanted;
        let usual = if grows { self.start } else { self.stop };
        let slow = self.slow.iter().map(|(_, by)| *by).max();
        let at = now.after(slow.unwrap_or(usual));
        // Pods that were about to start are not started any more; and what would be later than this is
        // about pods that are none of the Deployment's by then.
        self.due
            .retain(|(when, own, then)| *own != key || *when < at && (grows || *then <= wanted));
        self.due.insert((at, key, wanted));
    }

    /// When it next has to act.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Does what is due; gives whose pods are how many now, where that is new.
    pub(crate) fn step(&mut self, seed: &Store, now: Time) -> Vec<(Key, u32)> {
        let mut changed = Vec::new();
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, key, present)) = self.due.pop_first()
        {
            let count = self.all.entry(key.clone()).or_default();
            let is_new = count.present != present;
            count.present = present;
            show(seed, &key, *count, now);
            if is_new {
                changed.push((key, present));
            }
        }
        changed
    }
}

/// Writes how many pods there are; all that are there are ready.
fn show(seed: &Store, (namespace, name): &Key, count: Count, now: Time) {
    // The Deployment may be gone by now.
    let _ = seed.modify(&DEPLOYMENTS, namespace, name, Part::Status, |object| {
        let mut status = json!({
            "observedGeneration": object["metadata"]["generation"],
            "conditions": object["status"]["conditions"],
        });
        if count.present > 0 {
            for field in [
                "/replicas",
                "/updatedReplicas",
                "/readyReplicas",
                "/availableReplicas",
            ] {
                field::set(&mut status, field, count.present);
            }
        }
        field::set(object, "/status", status);
        show_conditions(object, count, &clock::seconds(now));
    });
}

/// What `kubectl wait` and `kubectl rollout status` go by.
fn show_conditions(object: &mut Value, count: Count, now: &str) {
    // A quarter may be missing.
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
        if condition
            .get("status")
            .is_none_or(|before| *before != status)
        {
            condition.insert("lastTransitionTime".into(), now.into());
        }
        if condition
            .get("reason")
            .is_none_or(|before| *before != reason)
        {
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
    use crate::clock::Clock;

    const START: Duration = Duration::from_secs(5);
    const STOP: Duration = Duration::from_secs(2);
    const LONG: Duration = Duration::from_secs(150);

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    struct Stage {
        seed: Store,
        deployments: Deployments,
        key: Key,
    }

    impl Stage {
        fn new(count: u32) -> Self {
            let seed = Store::new(Clock::new(|| at(0)), 1);
            let object = json!({ "metadata": { "name": "kcm" }, "spec": { "replicas": count } });
            seed.create(&DEPLOYMENTS, "default", object).unwrap();
            let key: Key = ("default".into(), "kcm".into());
            let mut deployments = Deployments::new(START, STOP);
            deployments.add(&seed, key.clone(), count, at(0));
            Self {
                seed,
                deployments,
                key,
            }
        }

        /// Somebody scales it.
        fn scale(&mut self, wanted: u32, second: u64) {
            let scale = |object: &mut Value| field::set(object, "/spec/replicas", wanted);
            let scaled = self
                .seed
                .modify(&DEPLOYMENTS, "default", "kcm", Part::Object, scale);
            scaled.unwrap();
            self.deployments
                .see(self.key.clone(), wanted, false, at(second));
        }

        /// When pods came or went, and how many there were then.
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
    fn pods_that_stop_slowly_do_not_take_those_with_them_that_have_come_since() {
        let mut stage = Stage::new(1);
        stage.deployments.slow_down(0, LONG);
        stage.scale(0, 10);
        stage.deployments.speed_up(0);
        stage.scale(1, 60);
        assert_eq!(stage.play(0..300), []);
        assert_eq!(stage.deployments.count(&stage.key), (1, 1));
        assert_eq!(stage.status()["readyReplicas"], 1);
    }

    #[test]
    fn pods_that_are_gone_before_others_come_are_gone_for_so_long() {
        let mut stage = Stage::new(1);
        stage.scale(0, 10);
        stage.scale(1, 11);
        assert_eq!(stage.play(0..300), [(12, 0), (16, 1)]);
    }

    #[test]
    fn whatever_is_wanted_in_between_the_last_wish_comes_true() {
        for first in 0..4 {
            for second in 0..4 {
                for last in 0..4 {
                    let mut stage = Stage::new(1);
                    stage.deployments.slow_down(0, LONG);
                    stage.scale(first, 10);
                    stage.scale(second, 20);
                    stage.deployments.speed_up(0);
                    stage.scale(last, 30);
                    stage.play(0..300);
                    let found = stage.deployments.count(&stage.key);
                    assert_eq!(found, (last, last), "{first} {second} {last}");
                }
            }
        }
    }

    #[test]
    fn slow_pods_are_as_slow_as_the_slowest_fault_that_lasts() {
        let mut stage = Stage::new(3);
        stage.deployments.slow_down(0, Duration::from_secs(20));
        stage.deployments.slow_down(1, Duration::from_secs(10));
        stage.scale(2, 0);
        stage.deployments.speed_up(0);
        assert_eq!(stage.play(0..100), [(20, 2)]);
        stage.scale(1, 100);
        stage.deployments.speed_up(1);
        assert_eq!(stage.play(100..200), [(110, 1)]);
        stage.scale(0, 200);
        assert_eq!(stage.play(200..300), [(202, 0)]);
    }

    #[test]
    fn conditions_say_whether_it_is_available_and_since_when() {
        let mut stage = Stage::new(1);
        let shown = |stage: &Stage| {
            let status = stage.status();
            let of = |condition: &Value| {
                ["type", "status", "reason", "lastTransitionTime"]
                    .map(|field| condition[field].as_str().unwrap_or_default().to_owned())
            };
            [&status["conditions"][0], &status["conditions"][1]].map(of)
        };
        let [begun, gone, back] = [0, 12, 16].map(|second| clock::seconds(at(second)));
        let complete = ["Progressing", "True", "NewReplicaSetAvailable", &begun];
        let fine = ["Available", "True", "MinimumReplicasAvailable", &begun];
        assert_eq!(shown(&stage), [fine, complete]);
        stage.scale(0, 10);
        stage.scale(1, 11);
        // Nobody takes a status for the present one that is about another generation.
        assert_eq!(stage.status()["observedGeneration"], 1);
        stage.play(0..13);
        assert_eq!(stage.status()["observedGeneration"], 3);
        let missing = ["Available", "False", "MinimumReplicasUnavailable", &gone];
        let begins = ["Progressing", "True", "ReplicaSetUpdated", &begun];
        assert_eq!(shown(&stage), [missing, begins]);
        stage.play(13..30);
        let fine = ["Available", "True", "MinimumReplicasAvailable", &back];
        assert_eq!(shown(&stage), [fine, complete]);
    }

    #[test]
    fn a_change_that_is_none_of_the_counts_is_observed_as_well() {
        let mut stage = Stage::new(1);
        let annotate = |object: &mut Value| field::set(object, "/metadata/annotations/a", "b");
        let annotated = stage
            .seed
            .modify(&DEPLOYMENTS, "default", "kcm", Part::Object, annotate);
        annotated.unwrap();
        stage.deployments.see(stage.key.clone(), 1, false, at(10));
        assert_eq!(stage.play(0..30), []);
        assert_eq!(stage.status()["observedGeneration"], 2);
        stage.deployments.see(stage.key.clone(), 1, true, at(30));
        assert_eq!(stage.deployments.next(), None);
    }
}
