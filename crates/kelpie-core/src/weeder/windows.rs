//! The windows of one namespace, and the deletion of the pods in them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::pod::{Crash, Owner, Pod};
use super::window::{Window, WindowSummary};
use crate::Time;

/// The delay before the first retry of a failed deletion. It doubles with every failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The longest delay between two retries.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The settings of all windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRules {
    /// The length of a window.
    pub watch_duration: Duration,
    /// The cap: an owner's pods may be deleted this many times per window, for each of its pods.
    pub max_deletions_per_pod: u32,
    /// No pod is deleted. [`Windows::skips`] reports the pods that would be.
    pub dry_run: bool,
}

/// The windows of a namespace, and the pods to delete in them.
#[derive(Debug)]
pub struct Windows {
    rules: WindowRules,
    /// The windows that open later, by service.
    planned: BTreeMap<String, PlannedWindow>,
    /// The open windows, by service.
    open: BTreeMap<String, Window>,
    /// The attempts to delete a pod, by uid.
    attempts: BTreeMap<String, DeletionAttempts>,
}

/// A window that opens at `from`.
#[derive(Clone, Copy, Debug)]
struct PlannedWindow {
    /// `None`: no recovery was seen. Such a window waits for [`Windows::open_starts`].
    recovered: Option<Time>,
    from: Time,
}

/// The attempts to delete a pod.
#[derive(Clone, Debug, Default)]
struct DeletionAttempts {
    /// A call is in flight.
    is_in_flight: bool,
    /// The pod was deleted. The watch may still show it.
    is_gone: bool,
    /// The pod had already changed when it was to be deleted at this version.
    changed_at: Option<String>,
    failures: u32,
    /// The pod is not tried again before this instant.
    retry_at: Option<Time>,
}

/// The opening or closing of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// A window opened: the caller has to watch the dependants of the service.
    Opened {
        /// The name of the service.
        service: String,
        /// The window was already open and restarts. Its pods are already watched.
        again: bool,
    },
    /// A window closed: the dependants of the service need not be watched any more.
    Closed {
        /// The name of the service.
        service: String,
    },
}

/// A pod to delete now, if it has not changed. The caller passes it to [`Windows::record_result`]
/// with the result of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The name of the service whose window the pod is in.
    pub service: String,
    /// The instant of the service's recovery; `None` if none was seen.
    pub recovered: Option<Time>,
    /// The name of the pod.
    pub pod: String,
    /// The uid, as a precondition of the deletion.
    pub uid: String,
    /// The `resourceVersion`, as a precondition of the deletion.
    pub version: String,
    /// The controller that will replace the pod.
    pub owner: Owner,
    /// The evidence that the pod is crash-looping.
    pub crash: Box<Crash>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// The API server accepted the deletion.
    Deleted,
    /// The pod has changed, so it was not deleted. It is judged again when the watch shows the
    /// change.
    Changed,
    /// The pod was already gone.
    Gone,
    /// The deletion was refused or never requested. The pod was certainly not deleted.
    Refused,
    /// The call failed in another way. The pod may have been deleted.
    Unknown,
}

/// The reason for not deleting a pod in CrashLoopBackOff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// The pod is already terminating.
    Terminating,
    /// The pod has no controller that would replace it.
    Ownerless,
    /// The cap of the pod's owner is reached in this window.
    Capped,
    /// In a dry run nothing is deleted.
    DryRun,
}

/// A pod that is not deleted. It is reported once per pod, window and reason, and for a cap once
/// per owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The name of the service whose window the pod is in.
    pub service: String,
    /// The reason for not deleting the pod.
    pub cause: SkipReason,
    /// The pod as last seen.
    pub pod: Pod,
    /// The number of deletions charged to the pod's owner in this window.
    pub deletions: u32,
}

impl Windows {
    /// Creates windows of which none is open.
    pub fn new(rules: WindowRules) -> Self {
        Self {
            rules,
            planned: BTreeMap::new(),
            open: BTreeMap::new(),
            attempts: BTreeMap::new(),
        }
    }

    /// Plans the window of a service. [`Windows::advance`] opens or restarts it at `from` if the
    /// service recovered, [`Windows::open_starts`] if it was ready when this replica started to
    /// act.
    pub fn plan(&mut self, service: &str, recovered: Option<Time>, from: Time) {
        let plan = PlannedWindow { recovered, from };
        self.planned.insert(service.to_owned(), plan);
    }

    /// Closes the window of a service that is gone. Returns whether the window was open.
    pub fn close(&mut self, service: &str) -> bool {
        self.planned.remove(service);
        let was_open = self.open.remove(service).is_some();
        self.prune_attempts();
        was_open
    }

    /// Forgets all pods and planned windows, because this replica does not act any more. Open
    /// windows stay, with the deletions charged to each owner, and go on when the replica acts
    /// again before their end.
    pub fn suspend(&mut self) {
        self.planned.clear();
        for window in self.open.values_mut() {
            window.remove_all();
        }
        self.prune_attempts();
    }

    /// Opens and closes the windows that are due. The caller does this before anything else.
    pub fn advance(&mut self, now: Time) -> Vec<WindowChange> {
        let expired = self.open.iter().filter(|(_, window)| !window.is_open(now));
        let expired: Vec<String> = expired.map(|(service, _)| service.clone()).collect();
        let mut changes = Vec::new();
        let due = self.planned.iter();
        let due = due.filter(|(_, plan)| plan.from <= now && plan.recovered.is_some());
        let due: Vec<String> = due.map(|(service, _)| service.clone()).collect();
        for service in expired.into_iter().filter(|service| !due.contains(service)) {
            self.open.remove(&service);
            changes.push(WindowChange::Closed { service });
        }
        changes.extend(
            due.into_iter()
                .filter_map(|service| self.open(service, now)),
        );
        if !changes.is_empty() {
            self.prune_attempts();
        }
        changes
    }

    /// Returns whether a window without a recovery is due. The caller opens it when the load on the
    /// seed permits.
    pub fn has_due_starts(&self, now: Time) -> bool {
        let mut planned = self.planned.values();
        planned.any(|plan| plan.recovered.is_none() && plan.from <= now)
    }

    /// Opens the windows without a recovery that are due. They begin now, however long they had to
    /// wait.
    pub fn open_starts(&mut self, now: Time) -> Vec<WindowChange> {
        let due = self.planned.iter();
        let due = due.filter(|(_, plan)| plan.from <= now && plan.recovered.is_none());
        let due: Vec<String> = due.map(|(service, _)| service.clone()).collect();
        let open = due
            .into_iter()
            .filter_map(|service| self.open(service, now));
        open.collect()
    }

    /// Opens or restarts a window that is planned.
    fn open(&mut self, service: String, now: Time) -> Option<WindowChange> {
        let PlannedWindow { recovered, from } = self.planned.remove(&service)?;
        let from = if recovered.is_some() { from } else { now };
        let until = from.after(self.rules.watch_duration);
        let again = if let Some(window) = self.open.get_mut(&service) {
            let attempts = &self.attempts;
            window.restart(recovered, until, |uid| is_gone(attempts, uid));
            true
        } else {
            let window = Window::new(recovered, until);
            self.open.insert(service.clone(), window);
            false
        };
        Some(WindowChange::Opened { service, again })
    }

    /// Begins a list of the dependants of a service.
    pub fn begin_list(&mut self, service: &str) {
        if let Some(window) = self.open.get_mut(service) {
            window.begin_list();
        }
    }

    /// Ends the list, and removes the pods that it did not name.
    pub fn end_list(&mut self, service: &str) {
        if let Some(window) = self.open.get_mut(service) {
            window.end_list();
            self.prune_attempts();
        }
    }

    /// Adds or updates a dependant of the service.
    pub fn put(&mut self, service: &str, pod: Pod) {
        let is_gone = is_gone(&self.attempts, &pod.uid);
        if let Some(window) = self.open.get_mut(service) {
            window.put(pod, is_gone);
        }
    }

    /// Removes a pod that is gone, or does not depend on the service any more.
    pub fn remove(&mut self, service: &str, name: &str) {
        if let Some(window) = self.open.get_mut(service) {
            window.remove(name);
            self.prune_attempts();
        }
    }

    /// Returns whether a pod is to be deleted now.
    pub fn has_work(&self, now: Time) -> bool {
        self.open
            .values()
            .any(|window| self.first_deletable(window, now).is_some())
    }

    /// Returns the next pod to delete. The dependants of the service that recovered first go first,
    /// those of a service without a recovery last.
    pub fn next(&mut self, now: Time) -> Option<Deletion> {
        let mut windows: Vec<(&String, &Window)> = self.open.iter().collect();
        windows.sort_by_key(|(_, window)| (window.recovered.is_none(), window.recovered));
        let found = windows.into_iter().find_map(|(service, window)| {
            Some((service.clone(), self.first_deletable(window, now)?.clone()))
        });
        let (service, pod) = found?;
        let window = self.open.get_mut(&service)?;
        let (owner, crash) = (pod.owner?, pod.crash?);
        window.budget(&owner).charge(&pod.uid);
        self.attempts
            .entry(pod.uid.clone())
            .or_default()
            .is_in_flight = true;
        Some(Deletion {
            recovered: window.recovered,
            service,
            pod: pod.name,
            uid: pod.uid,
            version: pod.version,
            owner,
            crash,
        })
    }

    /// Takes in the result of a deletion.
    pub fn record_result(&mut self, deletion: &Deletion, result: DeletionResult, now: Time) {
        let uid = &deletion.uid;
        let attempts = self.attempts.entry(uid.clone()).or_default();
        attempts.is_in_flight = false;
        match result {
            DeletionResult::Deleted | DeletionResult::Gone => attempts.is_gone = true,
            DeletionResult::Changed => attempts.changed_at = Some(deletion.version.clone()),
            DeletionResult::Refused | DeletionResult::Unknown => {
                let doublings = attempts.failures.min(16);
                attempts.failures = attempts.failures.saturating_add(1);
                let pause = FIRST_RETRY_DELAY
                    .saturating_mul(1 << doublings)
                    .min(MAX_RETRY_DELAY);
                attempts.retry_at = Some(now.after(pause));
            }
        }
        if attempts.is_gone {
            for window in self.open.values_mut() {
                window.budget(&deletion.owner).remove_pod(uid);
            }
        }
        if let Some(window) = self.open.get_mut(&deletion.service) {
            match result {
                DeletionResult::Deleted => window.deleted += 1,
                DeletionResult::Changed | DeletionResult::Gone | DeletionResult::Refused => {
                    window.budget(&deletion.owner).refund(uid);
                }
                DeletionResult::Unknown => window.budget(&deletion.owner).keep(uid),
            }
        }
        self.prune_attempts();
    }

    /// Returns the pods that are not deleted, as far as they were not reported yet.
    pub fn skips(&mut self, now: Time) -> Vec<Skip> {
        let mut found = Vec::new();
        for (service, window) in &self.open {
            let pods = window.crashing.iter().filter_map(|uid| window.pod(uid));
            for pod in pods {
                if let Err(Some(cause)) = self.check_deletable(window, pod, now)
                    && window.is_unreported(pod, cause)
                {
                    found.push((service.clone(), pod.clone(), cause));
                }
            }
        }
        let report = |(service, pod, cause)| {
            let window = self.open.get_mut(&service)?;
            // The first pod of an owner reports the cap for the others.
            let deletions = window
                .is_unreported(&pod, cause)
                .then(|| window.mark_reported(&pod, cause))?;
            Some(Skip {
                service,
                cause,
                pod,
                deletions,
            })
        };
        found.into_iter().filter_map(report).collect()
    }

    /// Returns the next instant at which something is due.
    pub fn next_wake(&self, now: Time) -> Option<Time> {
        // A window without a recovery that is due waits for the caller.
        let opening = self
            .planned
            .values()
            .map(|plan| (plan.recovered, plan.from));
        let opening = opening.filter(|(recovered, from)| recovered.is_some() || *from > now);
        let opening = opening.map(|(_, from)| from);
        let closing = self.open.values().map(|window| window.until);
        let retries = self
            .attempts
            .values()
            .filter_map(|attempts| attempts.retry_at);
        let retries = retries.filter(|at| *at > now);
        opening.chain(closing).chain(retries).min()
    }

    /// Returns the names of the services with an open window.
    pub fn open_services(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// Returns whether a window is open because its service recovered.
    pub fn has_recovery(&self) -> bool {
        let mut windows = self.open.values();
        windows.any(|window| window.recovered.is_some())
    }

    /// Returns the services with an open window, each with a summary.
    pub fn services(&self) -> impl Iterator<Item = (&str, WindowSummary)> {
        let windows = self.open.iter();
        windows.map(|(service, window)| (service.as_str(), window.summary()))
    }

    fn first_deletable<'a>(&self, window: &'a Window, now: Time) -> Option<&'a Pod> {
        let pods = window.crashing.iter().filter_map(|uid| window.pod(uid));
        let mut pods = pods.filter(|pod| self.check_deletable(window, pod, now).is_ok());
        pods.next()
    }

    /// Decides whether a pod in CrashLoopBackOff is deleted now. The error is the reason, or `None`
    /// if the pod is only to wait.
    fn check_deletable(
        &self,
        window: &Window,
        pod: &Pod,
        now: Time,
    ) -> Result<(), Option<SkipReason>> {
        if !window.is_open(now) {
            return Err(None);
        }
        if let Some(attempts) = self.attempts.get(&pod.uid)
            && attempts.must_wait(pod, now)
        {
            return Err(None);
        }
        if pod.is_terminating {
            return Err(Some(SkipReason::Terminating));
        }
        let Some(owner) = &pod.owner else {
            return Err(Some(SkipReason::Ownerless));
        };
        if self.rules.dry_run {
            return Err(Some(SkipReason::DryRun));
        }
        if !window.has_room(owner, &pod.uid, self.rules.max_deletions_per_pod) {
            return Err(Some(SkipReason::Capped));
        }
        Ok(())
    }

    /// Drops the attempts for pods that are in no window any more.
    fn prune_attempts(&mut self) {
        let open = &self.open;
        let is_seen = |uid: &str| open.values().any(|window| window.pod(uid).is_some());
        self.attempts
            .retain(|uid, attempts| attempts.is_in_flight || is_seen(uid));
    }
}

impl DeletionAttempts {
    fn must_wait(&self, pod: &Pod, now: Time) -> bool {
        self.is_in_flight
            || self.is_gone
            || self.changed_at.as_ref() == Some(&pod.version)
            || self.retry_at.is_some_and(|at| now < at)
    }
}

fn is_gone(attempts: &BTreeMap<String, DeletionAttempts>, uid: &str) -> bool {
    attempts.get(uid).is_some_and(|attempts| attempts.is_gone)
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminating => "it is already terminating",
            Self::Ownerless => "it has no controller that would replace it",
            Self::Capped => "the cap on deletions of its owner's pods is reached",
            Self::DryRun => "this is a dry run",
        })
    }
}
