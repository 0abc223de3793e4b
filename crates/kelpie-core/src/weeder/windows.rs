//! The windows of one namespace, and what is done with the pods in them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::pod::{Crash, Owner, Pod};
use super::window::{Sum, Window};
use crate::Time;

/// A deletion that failed is tried again after this, then after twice as long, and so on.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// What is the same for all windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a window is open.
    pub watch_duration: Duration,
    /// How often, per pod of an owner, pods may be deleted in one window.
    pub max_deletions_per_pod: u32,
    /// Nothing is deleted.
    pub dry_run: bool,
}

/// Every open window of a namespace.
#[derive(Debug)]
pub struct Windows {
    rules: Rules,
    /// Windows that open later, by service.
    planned: BTreeMap<String, Plan>,
    /// By service.
    open: BTreeMap<String, Window>,
    /// What was tried with a pod, by uid.
    trials: BTreeMap<String, Trial>,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    recovered: Time,
    from: Time,
    selectors: usize,
}

/// What was tried with a pod.
#[derive(Clone, Debug, Default)]
struct Trial {
    /// A call is under way.
    is_under_way: bool,
    /// It is gone, whatever the watch still shows.
    is_gone: bool,
    /// At this version it was not as we thought.
    stale: Option<String>,
    failures: u32,
    /// Not before.
    next: Option<Time>,
}

/// A window opened, or it closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// Its pods are to be watched; `again`: they are already.
    Opened {
        /// The service.
        service: String,
        /// The window was open, and begins anew.
        again: bool,
    },
    /// Nobody has to be watched for it any more.
    Closed {
        /// The service.
        service: String,
    },
}

/// A pod to be deleted now, if it still is what it was. To be given back by [`Windows::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The service whose window it is.
    pub service: String,
    /// When that service came back.
    pub recovered: Time,
    /// The pod's name.
    pub pod: String,
    /// It must have this uid.
    pub uid: String,
    /// It must have this version.
    pub version: String,
    /// Who brings it back.
    pub owner: Owner,
    /// Why.
    pub crash: Box<Crash>,
}

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod goes.
    Deleted,
    /// It is not what it was any more, and is judged again when it is seen.
    Changed,
    /// It was gone already.
    Gone,
    /// It was certainly not deleted.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// Why a pod in CrashLoopBackOff is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It is on its way out already.
    Leaving,
    /// Nobody would bring it back.
    Ownerless,
    /// As many pods of its owner as may be were deleted in this window.
    Capped,
    /// This is a dry run.
    DryRun,
}

/// A pod that is passed over. Told once per pod, window and cause; for a cap once per owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The service whose window it is.
    pub service: String,
    /// Why.
    pub cause: Cause,
    /// The pod.
    pub pod: Pod,
    /// How many pods of its owner were deleted in this window.
    pub deletions: u32,
}

impl Windows {
    /// None is open yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            planned: BTreeMap::new(),
            open: BTreeMap::new(),
            trials: BTreeMap::new(),
        }
    }

    /// A service has come back: its window opens, or begins anew, at `from` (see [`Windows::advance`]).
    /// `selectors`: how many select its dependants.
    pub fn plan(&mut self, service: &str, selectors: usize, recovered: Time, from: Time) {
        let plan = Plan {
            recovered,
            from,
            selectors,
        };
        self.planned.insert(service.to_owned(), plan);
    }

    /// The service is gone, or this replica acts no longer. True if a window was open.
    pub fn close(&mut self, service: &str) -> bool {
        self.planned.remove(service);
        let was_open = self.open.remove(service).is_some();
        self.forget();
        was_open
    }

    /// Opens and closes what is due. To be asked before anything else.
    pub fn advance(&mut self, now: Time) -> Vec<WindowChange> {
        let over = self.open.iter().filter(|(_, window)| !window.is_open(now));
        let over: Vec<String> = over.map(|(service, _)| service.clone()).collect();
        let mut changes = Vec::new();
        let due = self.planned.iter().filter(|(_, plan)| plan.from <= now);
        let due: Vec<String> = due.map(|(service, _)| service.clone()).collect();
        for service in over.into_iter().filter(|service| !due.contains(service)) {
            self.open.remove(&service);
            changes.push(WindowChange::Closed { service });
        }
        for service in due {
            let Some(plan) = self.planned.remove(&service) else {
                continue;
            };
            let until = plan.from.after(self.rules.watch_duration);
            let again = if let Some(window) = self.open.get_mut(&service) {
                let trials = &self.trials;
                window.restart(plan.recovered, until, |uid| is_gone(trials, uid));
                true
            } else {
                let window = Window::new(plan.selectors, plan.recovered, until);
                self.open.insert(service.clone(), window);
                false
            };
            changes.push(WindowChange::Opened { service, again });
        }
        if !changes.is_empty() {
            self.forget();
        }
        changes
    }

    /// A list of the pods that a selector of a service shows begins.
    pub fn begin_list(&mut self, service: &str, selector: usize) {
        if let Some(window) = self.open.get_mut(service) {
            window.begin_list(selector);
        }
    }

    /// That list is complete.
    pub fn end_list(&mut self, service: &str, selector: usize) {
        if let Some(window) = self.open.get_mut(service) {
            window.end_list(selector);
            self.forget();
        }
    }

    /// That selector shows a pod.
    pub fn put(&mut self, service: &str, selector: usize, pod: Pod) {
        let is_gone = is_gone(&self.trials, &pod.uid);
        if let Some(window) = self.open.get_mut(service) {
            window.put(selector, pod, is_gone);
        }
    }

    /// That selector no longer shows a pod.
    pub fn remove(&mut self, service: &str, selector: usize, name: &str) {
        if let Some(window) = self.open.get_mut(service) {
            window.remove(selector, name);
            self.forget();
        }
    }

    /// Whether a pod is to be deleted now.
    pub fn has_work(&self, now: Time) -> bool {
        self.open
            .values()
            .any(|window| self.first(window, now).is_some())
    }

    /// The next pod to be deleted; those of the service that came back first go first.
    pub fn next(&mut self, now: Time) -> Option<Deletion> {
        let mut windows: Vec<(&String, &Window)> = self.open.iter().collect();
        windows.sort_by_key(|(_, window)| window.recovered);
        let found = windows.into_iter().find_map(|(service, window)| {
            Some((service.clone(), self.first(window, now)?.clone()))
        });
        let (service, pod) = found?;
        let window = self.open.get_mut(&service)?;
        let (owner, crash) = (pod.owner?, pod.crash?);
        window.tally(&owner).charge(&pod.uid);
        self.trials.entry(pod.uid.clone()).or_default().is_under_way = true;
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

    /// What came of it.
    pub fn settle(&mut self, deletion: &Deletion, outcome: Outcome, now: Time) {
        let uid = &deletion.uid;
        let trial = self.trials.entry(uid.clone()).or_default();
        trial.is_under_way = false;
        match outcome {
            Outcome::Deleted | Outcome::Gone => trial.is_gone = true,
            Outcome::Changed => trial.stale = Some(deletion.version.clone()),
            Outcome::Refused | Outcome::Unknown => {
                let doublings = trial.failures.min(16);
                trial.failures = trial.failures.saturating_add(1);
                let pause = FIRST_RETRY.saturating_mul(1 << doublings).min(LAST_RETRY);
                trial.next = Some(now.after(pause));
            }
        }
        if trial.is_gone {
            for window in self.open.values_mut() {
                window.tally(&deletion.owner).left(uid);
            }
        }
        if let Some(window) = self.open.get_mut(&deletion.service) {
            match outcome {
                Outcome::Deleted => window.deleted += 1,
                Outcome::Changed | Outcome::Gone | Outcome::Refused => {
                    window.tally(&deletion.owner).refund(uid);
                }
                Outcome::Unknown => {}
            }
        }
        self.forget();
    }

    /// Pods that are passed over and were not told yet.
    pub fn skips(&mut self, now: Time) -> Vec<Skip> {
        let mut found = Vec::new();
        for (service, window) in &self.open {
            let pods = window.crashing.iter().filter_map(|uid| window.pod(uid));
            for pod in pods {
                if let Err(Some(cause)) = self.judge(window, pod, now)
                    && window.is_news(pod, cause)
                {
                    found.push((service.clone(), pod.clone(), cause));
                }
            }
        }
        let tell = |(service, pod, cause)| {
            let window = self.open.get_mut(&service)?;
            // The first pod of an owner may have told it for the others.
            let deletions = window
                .is_news(&pod, cause)
                .then(|| window.tell(&pod, cause))?;
            Some(Skip {
                service,
                cause,
                pod,
                deletions,
            })
        };
        found.into_iter().filter_map(tell).collect()
    }

    /// When something is due after this.
    pub fn next_wake(&self, now: Time) -> Option<Time> {
        let opening = self.planned.values().map(|plan| plan.from);
        let closing = self.open.values().map(|window| window.until);
        let trying = self.trials.values().filter_map(|trial| trial.next);
        let trying = trying.filter(|at| *at > now);
        opening.chain(closing).chain(trying).min()
    }

    /// Services with an open window.
    pub fn services(&self) -> impl Iterator<Item = (&str, Sum)> {
        let sums = self.open.iter();
        sums.map(|(service, window)| (service.as_str(), window.sum()))
    }

    fn first<'a>(&self, window: &'a Window, now: Time) -> Option<&'a Pod> {
        let pods = window.crashing.iter().filter_map(|uid| window.pod(uid));
        let mut pods = pods.filter(|pod| self.judge(window, pod, now).is_ok());
        pods.next()
    }

    /// Whether a pod in CrashLoopBackOff is to be deleted now; if not, why, or `None`: not yet.
    fn judge(&self, window: &Window, pod: &Pod, now: Time) -> Result<(), Option<Cause>> {
        if !window.is_open(now) {
            return Err(None);
        }
        if let Some(trial) = self.trials.get(&pod.uid)
            && trial.must_wait(pod, now)
        {
            return Err(None);
        }
        if pod.is_leaving {
            return Err(Some(Cause::Leaving));
        }
        let Some(owner) = &pod.owner else {
            return Err(Some(Cause::Ownerless));
        };
        if self.rules.dry_run {
            return Err(Some(Cause::DryRun));
        }
        if !window.has_room(owner, &pod.uid, self.rules.max_deletions_per_pod) {
            return Err(Some(Cause::Capped));
        }
        Ok(())
    }

    /// Forgets what was tried with pods that no window shows any more.
    fn forget(&mut self) {
        let open = &self.open;
        let is_seen = |uid: &str| open.values().any(|window| window.pod(uid).is_some());
        self.trials
            .retain(|uid, trial| trial.is_under_way || is_seen(uid));
    }
}

impl Trial {
    fn must_wait(&self, pod: &Pod, now: Time) -> bool {
        self.is_under_way
            || self.is_gone
            || self.stale.as_ref() == Some(&pod.version)
            || self.next.is_some_and(|next| now < next)
    }
}

fn is_gone(trials: &BTreeMap<String, Trial>, uid: &str) -> bool {
    trials.get(uid).is_some_and(|trial| trial.is_gone)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaving => "it is on its way out already",
            Self::Ownerless => "it has no controller that would bring it back",
            Self::Capped => "its owner's pods were deleted as often as they may be",
            Self::DryRun => "this is a dry run",
        })
    }
}
