//! The Deployment controller of the seed, with the pods it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::json;

use crate::resource::DEPLOYMENTS;
use crate::store::{Part, Store};

/// A Deployment: its namespace and name.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// Pods that follow the replicas of their Deployments after a while.
#[derive(Debug)]
pub(crate) struct Deployments {
    start: Duration,
    stop: Duration,
    /// Pods take this long instead.
    slow: Option<Duration>,
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
            slow: None,
            all: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    pub(crate) fn slow_down(&mut self, by: Option<Duration>) {
        self.slow = by;
    }

    /// A Deployment whose pods are there already.
    pub(crate) fn add(&mut self, seed: &Store, key: Key, count: u32) {
        show(seed, &key, count);
        let (wanted, present) = (count, count);
        self.all.insert(key, Count { wanted, present });
    }

    /// How many are wanted and how many are there.
    pub(crate) fn count(&self, key: &Key) -> (u32, u32) {
        let count = self.all.get(key).copied().unwrap_or_default();
        (count.wanted, count.present)
    }

    /// A Deployment was written.
    pub(crate) fn see(&mut self, key: Key, wanted: u32, now: Time) {
        let count = self.all.entry(key.clone()).or_default();
        if count.wanted == wanted {
            return;
        }
        let grows = wanted > count.wanted;
        count.wanted = wanted;
        if !grows {
            // Pods that were about to start are not started any more.
            self.due
                .retain(|(_, own, then)| *own != key || *then <= wanted);
        }
        let usual = if grows { self.start } else { self.stop };
        let at = now.after(self.slow.unwrap_or(usual));
        self.due.insert((at, key, wanted));
    }

    /// When it next has to act.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Does what is due; gives whose pods are how many now.
    pub(crate) fn step(&mut self, seed: &Store, now: Time) -> Vec<(Key, u32)> {
        let mut changed = Vec::new();
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, key, present)) = self.due.pop_first()
        {
            show(seed, &key, present);
            self.all.entry(key.clone()).or_default().present = present;
            changed.push((key, present));
        }
        changed
    }
}

/// Writes how many pods there are; all that are there are ready.
fn show(seed: &Store, (namespace, name): &Key, count: u32) {
    // The Deployment may be gone by now.
    let _ = seed.modify(&DEPLOYMENTS, namespace, name, Part::Status, |object| {
        let generation = object["metadata"]["generation"].clone();
        object["status"] = match count {
            0 => json!({ "observedGeneration": generation }),
            _ => json!({
                "observedGeneration": generation,
                "replicas": count,
                "updatedReplicas": count,
                "readyReplicas": count,
                "availableReplicas": count,
            }),
        };
    });
}
