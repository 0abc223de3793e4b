//! A watch window: one service's dependants, for a while after it has come back.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::pod::{Owner, Pod};
use super::tally::Tally;
use super::windows::Cause;
use crate::{Mirror, Time};

/// A window and the pods seen through it.
#[derive(Debug)]
pub(super) struct Window {
    /// When the service came back.
    pub(super) recovered: Time,
    /// When the window is over.
    pub(super) until: Time,
    /// Names and uids, by the selector that shows them. A pod may match several.
    views: Vec<Mirror<String, String>>,
    /// By uid.
    pods: BTreeMap<String, Seen>,
    /// Those in CrashLoopBackOff.
    pub(super) crashing: BTreeSet<String>,
    /// By the owner's uid.
    owners: BTreeMap<String, Tally>,
    /// Deletions that were acknowledged.
    pub(super) deleted: u32,
}

#[derive(Debug)]
struct Seen {
    pod: Pod,
    /// The selectors that show it, seldom more than one: a set would take ten times the memory.
    views: Vec<usize>,
    /// Why it is passed over, if that was told.
    told: Option<Cause>,
}

/// A window in numbers, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// When the service came back.
    pub recovered: Time,
    /// When the window is over.
    pub until: Time,
    /// Pods that depend on the service.
    pub pods: usize,
    /// Those of them in CrashLoopBackOff.
    pub crashing: usize,
    /// Those that were deleted.
    pub deleted: u32,
}

impl Window {
    /// With so many selectors.
    pub(super) fn new(selectors: usize, recovered: Time, until: Time) -> Self {
        let views = (0..selectors).map(|_| Mirror::new());
        Self {
            recovered,
            until,
            views: views.collect(),
            pods: BTreeMap::new(),
            crashing: BTreeSet::new(),
            owners: BTreeMap::new(),
            deleted: 0,
        }
    }

    /// Begins anew with the pods it has: the service has come back once more.
    pub(super) fn restart(&mut self, recovered: Time, until: Time, is_gone: impl Fn(&str) -> bool) {
        (self.recovered, self.until) = (recovered, until);
        self.owners.clear();
        self.deleted = 0;
        for seen in self.pods.values_mut() {
            seen.told = None;
            let pod = &seen.pod;
            if let Some(owner) = &pod.owner
                && !pod.is_leaving
                && !is_gone(&pod.uid)
            {
                let tally = self.owners.entry(owner.uid.clone()).or_default();
                tally.arrived(&pod.uid);
            }
        }
    }

    pub(super) fn begin_list(&mut self, view: usize) {
        if let Some(mirror) = self.views.get_mut(view) {
            mirror.begin_list();
        }
    }

    pub(super) fn end_list(&mut self, view: usize) {
        let Some(mirror) = self.views.get_mut(view) else {
            return;
        };
        let known: BTreeMap<String, String> = mirror
            .iter()
            .map(|(name, uid)| (name.clone(), uid.clone()))
            .collect();
        for name in mirror.end_list() {
            if let Some(uid) = known.get(&name) {
                self.unsee(view, uid);
            }
        }
    }

    /// A pod is there, or has changed; `is_gone`: we have deleted it already.
    pub(super) fn put(&mut self, view: usize, pod: Pod, is_gone: bool) {
        let Some(mirror) = self.views.get_mut(view) else {
            return;
        };
        let before = mirror.put(pod.name.clone(), pod.uid.clone());
        if let Some(before) = before.filter(|before| *before != pod.uid) {
            self.unsee(view, &before);
        }
        if let Some(owner) = &pod.owner {
            let tally = self.owners.entry(owner.uid.clone()).or_default();
            if pod.is_leaving || is_gone {
                tally.left(&pod.uid);
            } else {
                tally.arrived(&pod.uid);
            }
        }
        if pod.crash.is_some() {
            self.crashing.insert(pod.uid.clone());
        } else {
            self.crashing.remove(&pod.uid);
        }
        if let Some(seen) = self.pods.get_mut(&pod.uid) {
            if !seen.views.contains(&view) {
                seen.views.push(view);
            }
            seen.pod = pod;
        } else {
            let seen = Seen {
                views: vec![view],
                told: None,
                pod,
            };
            self.pods.insert(seen.pod.uid.clone(), seen);
        }
    }

    pub(super) fn remove(&mut self, view: usize, name: &str) {
        let uid = self
            .views
            .get_mut(view)
            .and_then(|mirror| mirror.remove(&name.to_owned()));
        if let Some(uid) = uid {
            self.unsee(view, &uid);
        }
    }

    /// A selector no longer shows this pod.
    fn unsee(&mut self, view: usize, uid: &str) {
        let Some(seen) = self.pods.get_mut(uid) else {
            return;
        };
        seen.views.retain(|by| *by != view);
        if !seen.views.is_empty() {
            return;
        }
        if let Some(seen) = self.pods.remove(uid)
            && let Some(owner) = seen.pod.owner
            && let Some(tally) = self.owners.get_mut(&owner.uid)
        {
            tally.left(uid);
        }
        self.crashing.remove(uid);
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid).map(|seen| &seen.pod)
    }

    /// Whether it was not told yet that a pod is passed over for this cause; a cap is its owner's.
    pub(super) fn is_news(&self, pod: &Pod, cause: Cause) -> bool {
        if let (Some(owner), Cause::Capped) = (&pod.owner, cause) {
            let tally = self.owners.get(&owner.uid);
            return tally.is_none_or(|tally| !tally.gave_up);
        }
        let seen = self.pods.get(&pod.uid);
        seen.is_some_and(|seen| seen.told != Some(cause))
    }

    /// It is told now. Gives how many pods of its owner were deleted.
    pub(super) fn tell(&mut self, pod: &Pod, cause: Cause) -> u32 {
        if let Some(seen) = self.pods.get_mut(&pod.uid) {
            seen.told = Some(cause);
        }
        let owner = pod.owner.as_ref();
        let tally = owner.and_then(|owner| self.owners.get_mut(&owner.uid));
        tally.map_or(0, |tally| {
            tally.gave_up |= cause == Cause::Capped;
            tally.charged()
        })
    }

    pub(super) fn has_room(&self, owner: &Owner, uid: &str, per_pod: u32) -> bool {
        let tally = self.owners.get(&owner.uid);
        tally.is_some_and(|tally| tally.has_room(uid, per_pod))
    }

    pub(super) fn tally(&mut self, owner: &Owner) -> &mut Tally {
        self.owners.entry(owner.uid.clone()).or_default()
    }

    pub(super) fn is_open(&self, now: Time) -> bool {
        now < self.until
    }

    pub(super) fn sum(&self) -> Sum {
        Sum {
            recovered: self.recovered,
            until: self.until,
            pods: self.pods.len(),
            crashing: self.crashing.len(),
            deleted: self.deleted,
        }
    }
}
