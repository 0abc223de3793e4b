//! A window: the dependants of one service, watched for a while after its recovery.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::deletion_budget::DeletionBudget;
use super::pod::{Owner, Pod};
use super::windows::SkipReason;
use crate::{Time, WatchCache};

/// A window and the pods in it.
#[derive(Debug)]
pub(super) struct Window {
    /// The instant of the service's recovery; `None` if the service was ready before the weeder
    /// started to act.
    pub(super) recovered: Option<Time>,
    /// The end of the window.
    pub(super) until: Time,
    /// The uids of the pods by name.
    uids: WatchCache<String, String>,
    /// All pods, by uid.
    pods: BTreeMap<String, WindowPod>,
    /// The uids of the pods in CrashLoopBackOff.
    pub(super) crashing: BTreeSet<String>,
    /// The budgets by the uid of the owner.
    budgets: BTreeMap<String, DeletionBudget>,
    /// The number of acknowledged deletions.
    pub(super) deleted: u32,
}

/// A pod in a window.
#[derive(Debug)]
struct WindowPod {
    pod: Pod,
    /// The last reason for skipping the pod that was reported.
    reported: Option<SkipReason>,
}

/// A summary of a window, for the state page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowSummary {
    /// The instant of the service's recovery; `None` if none was seen.
    pub recovered: Option<Time>,
    /// The end of the window.
    pub until: Time,
    /// The number of the service's dependants.
    pub pods: usize,
    /// The number of dependants in CrashLoopBackOff.
    pub crashing: usize,
    /// The number of pods that were deleted.
    pub deleted: u32,
}

impl Window {
    /// Creates a window without pods.
    pub(super) fn new(recovered: Option<Time>, until: Time) -> Self {
        Self {
            recovered,
            until,
            uids: WatchCache::new(),
            pods: BTreeMap::new(),
            crashing: BTreeSet::new(),
            budgets: BTreeMap::new(),
            deleted: 0,
        }
    }

    /// Restarts the window with the pods that it has, after another recovery of the service.
    /// `is_gone` tells whether a pod, by uid, was already deleted.
    pub(super) fn restart(
        &mut self,
        recovered: Option<Time>,
        until: Time,
        is_gone: impl Fn(&str) -> bool,
    ) {
        (self.recovered, self.until) = (recovered, until);
        self.budgets.clear();
        self.deleted = 0;
        for entry in self.pods.values_mut() {
            entry.reported = None;
            let pod = &entry.pod;
            if let Some(owner) = &pod.owner
                && !pod.is_terminating
                && !is_gone(&pod.uid)
            {
                let budget = self.budgets.entry(owner.uid.clone()).or_default();
                budget.add_pod(&pod.uid);
            }
        }
    }

    pub(super) fn begin_list(&mut self) {
        self.uids.begin_list();
    }

    pub(super) fn end_list(&mut self) {
        let known: BTreeMap<String, String> = self
            .uids
            .iter()
            .map(|(name, uid)| (name.clone(), uid.clone()))
            .collect();
        for name in self.uids.end_list() {
            if let Some(uid) = known.get(&name) {
                self.remove_uid(uid);
            }
        }
    }

    /// Adds or updates a pod. `is_gone` tells whether the weeder has already deleted it.
    pub(super) fn put(&mut self, pod: Pod, is_gone: bool) {
        let before = self.uids.put(pod.name.clone(), pod.uid.clone());
        if let Some(before) = before.filter(|before| *before != pod.uid) {
            self.remove_uid(&before);
        }
        if let Some(owner) = &pod.owner {
            let budget = self.budgets.entry(owner.uid.clone()).or_default();
            if pod.is_terminating || is_gone {
                budget.remove_pod(&pod.uid);
            } else {
                budget.add_pod(&pod.uid);
            }
        }
        if pod.crash.is_some() {
            self.crashing.insert(pod.uid.clone());
        } else {
            self.crashing.remove(&pod.uid);
        }
        if let Some(entry) = self.pods.get_mut(&pod.uid) {
            entry.pod = pod;
        } else {
            let reported = None;
            let entry = WindowPod { pod, reported };
            self.pods.insert(entry.pod.uid.clone(), entry);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(uid) = self.uids.remove(&name.to_owned()) {
            self.remove_uid(&uid);
        }
    }

    /// Removes all pods. What was deleted stays charged to their owners.
    pub(super) fn remove_all(&mut self) {
        self.begin_list();
        self.end_list();
    }

    fn remove_uid(&mut self, uid: &str) {
        if let Some(entry) = self.pods.remove(uid)
            && let Some(owner) = entry.pod.owner
            && let Some(budget) = self.budgets.get_mut(&owner.uid)
        {
            budget.remove_pod(uid);
        }
        self.crashing.remove(uid);
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid).map(|entry| &entry.pod)
    }

    /// Returns whether it is still to be reported that a pod is skipped for this reason. The cap is
    /// reported once per owner.
    pub(super) fn is_unreported(&self, pod: &Pod, reason: SkipReason) -> bool {
        if let (Some(owner), SkipReason::Capped) = (&pod.owner, reason) {
            let budget = self.budgets.get(&owner.uid);
            return budget.is_none_or(|budget| !budget.is_cap_reported);
        }
        let entry = self.pods.get(&pod.uid);
        entry.is_some_and(|entry| entry.reported != Some(reason))
    }

    /// Notes that the reason was reported. Returns the number of deletions charged to the pod's
    /// owner.
    pub(super) fn mark_reported(&mut self, pod: &Pod, reason: SkipReason) -> u32 {
        if let Some(entry) = self.pods.get_mut(&pod.uid) {
            entry.reported = Some(reason);
        }
        let owner = pod.owner.as_ref();
        let budget = owner.and_then(|owner| self.budgets.get_mut(&owner.uid));
        budget.map_or(0, |budget| {
            budget.is_cap_reported |= reason == SkipReason::Capped;
            budget.charged()
        })
    }

    pub(super) fn has_room(&self, owner: &Owner, uid: &str, per_pod: u32) -> bool {
        let budget = self.budgets.get(&owner.uid);
        budget.is_some_and(|budget| budget.has_room(uid, per_pod))
    }

    pub(super) fn budget(&mut self, owner: &Owner) -> &mut DeletionBudget {
        self.budgets.entry(owner.uid.clone()).or_default()
    }

    pub(super) fn is_open(&self, now: Time) -> bool {
        now < self.until
    }

    pub(super) fn summary(&self) -> WindowSummary {
        WindowSummary {
            recovered: self.recovered,
            until: self.until,
            pods: self.pods.len(),
            crashing: self.crashing.len(),
            deleted: self.deleted,
        }
    }
}
