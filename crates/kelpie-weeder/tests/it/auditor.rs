//! Holds the weeder to what it promises, by what the seed's API server has; never by what the weeder says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::chaos::{self, Case};
use kelpie_sim::resource::{ENDPOINT_SLICES, EVENTS, PODS, Resource};
use kelpie_sim::scenario::{Fault, Site};
use kelpie_sim::{Event, Happening, Selection, Turn, Watch, What};
use serde_json::Value;

use crate::bait::{self, BAIT};

/// How long a window is open, and how late the first of a process may open.
const WINDOW: Duration = Duration::from_mins(5);
const SPREAD: Duration = Duration::from_secs(30);

/// How often an owner's only pod is deleted in one.
const CAP: u32 = 3;

/// What is seen at once is done by then, and a new pod runs.
const SOON: Duration = Duration::from_secs(20);

/// No request is under way for so long, unless its sender was stopped.
const LATE: Duration = Duration::from_secs(10);

/// After trouble the weeder is where it would have been by then.
const SETTLED: Duration = Duration::from_secs(150);

/// A namespace that refuses Events for want of a right is left alone for so long.
const SHUNNED: Duration = Duration::from_mins(10);

/// How much there was to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) deletions: usize,
    /// Those of them in windows that nothing but etcd had a part in.
    pub(crate) held: usize,
    /// Pods that came back by a deletion, or in time by themselves.
    pub(crate) returns: usize,
    /// Windows in which the cap was reached.
    pub(crate) capped: usize,
    /// Deletions by a weeder that was stopped in their midst.
    pub(crate) late: usize,
}

/// The etcd of a cluster, as its slice shows it.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    is_ready: bool,
    /// When it came back the last time; `None`: it was never gone.
    recovered: Option<Time>,
    /// Pods that were deleted since.
    deletions: u32,
}

pub(crate) struct Auditor {
    case: Case,
    slices: Watch,
    pods: Watch,
    /// By cluster.
    services: BTreeMap<String, Service>,
    /// Replicas, and the pods whose deletion was acknowledged to them.
    acknowledged: BTreeSet<(String, String)>,
    /// The deletion that is looked at was under way for long.
    is_late: bool,
    figures: Figures,
}

impl chaos::Auditor for Auditor {
    type Figures = Figures;

    fn new(case: Case) -> Self {
        let seed = case.landscape.seed();
        for row in case.landscape.fleet() {
            bait::lay(seed.store(), &row.cluster);
        }
        let start = case.start;
        let mut auditor = Self {
            slices: follow(&case, &ENDPOINT_SLICES),
            pods: follow(&case, &PODS),
            case,
            services: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            is_late: false,
            figures: Figures::default(),
        };
        auditor.take_slices(start);
        auditor.take_pods(None, start);
        auditor
    }

    fn case(&mut self) -> &mut Case {
        &mut self.case
    }

    fn figures(&self) -> Figures {
        self.figures
    }

    fn see(&mut self, happening: &Happening) {
        let at = happening.at;
        self.take_slices(at);
        match &happening.what {
            What::Call {
                user,
                came,
                was_held,
                verb: "delete",
                path,
                status,
                ..
            } if path.contains("/pods/") => {
                self.is_late = at.since(*came) > LATE;
                let is_told = *status == 200 && !was_held;
                self.check_call(user, path, is_told, at);
                self.figures.late += usize::from(self.is_late);
                self.take_pods(Some(user), at);
            }
            What::Dependant {
                cluster,
                turn: Turn::Started,
            } => self.check_return(cluster, at),
            _ => self.take_pods(None, at),
        }
    }

    /// At the end everything runs.
    fn close(&mut self) {
        let now = self.case.landscape.now();
        self.take_pods(None, now);
        for row in self.case.landscape.fleet() {
            if row.is_down {
                let text = format!("{}: its API server is not back", row.cluster);
                self.case.complain(now, &text);
            }
        }
    }
}

impl Auditor {
    fn take_slices(&mut self, at: Time) {
        while let Some(event) = self.slices.try_next() {
            let slice = match event {
                Event::Added(slice) | Event::Modified(slice) => slice,
                Event::Deleted(_) => continue,
                Event::Expired => {
                    self.slices = follow(&self.case, &ENDPOINT_SLICES);
                    continue;
                }
            };
            let (cluster, _) = place(&slice);
            let is_ready = slice["endpoints"][0]["conditions"]["ready"] == true;
            let service = self.services.entry(cluster.to_owned()).or_insert(Service {
                is_ready: true,
                ..Service::default()
            });
            if is_ready && !service.is_ready {
                (service.recovered, service.deletions) = (Some(at), 0);
            }
            service.is_ready = is_ready;
        }
    }

    /// Takes in what became of the pods, by the hand of `who`; nobody: not by a weeder.
    fn take_pods(&mut self, who: Option<&str>, at: Time) {
        while let Some(event) = self.pods.try_next() {
            match (event, who) {
                (Event::Deleted(pod), Some(who)) => self.judge(who, &pod, at),
                (Event::Deleted(pod), None) => {
                    let (cluster, name) = place(&pod);
                    let text = format!("{cluster}: nobody knows who deleted {name}");
                    self.case.complain(at, &text);
                }
                (Event::Expired, _) => self.pods = follow(&self.case, &PODS),
                (Event::Added(_) | Event::Modified(_), _) => {}
            }
        }
    }

    /// A weeder wants to delete a pod, and is told that it has; or not, whatever comes of it.
    fn check_call(&mut self, who: &str, path: &str, is_told: bool, at: Time) {
        if path.contains(BAIT) {
            self.case
                .complain(at, &format!("{who} would delete {path}"));
        }
        let key = (who.to_owned(), path.to_owned());
        // Who is shown the past may take a pod for another one that is still there.
        if self.acknowledged.contains(&key) && !self.is_stale(at) {
            let text = format!("{who} deletes {path} again after it was told that it is gone");
            self.case.complain(at, &text);
        }
        if is_told {
            self.acknowledged.insert(key);
        }
    }

    /// A weeder has deleted a pod.
    fn judge(&mut self, who: &str, pod: &Value, at: Time) {
        self.figures.deletions += 1;
        let (cluster, name) = place(pod);
        let mut wrong = Vec::new();
        // Who was stopped in the midst of it may have led when it began.
        if !self.is_late && !self.case.may_act(who) {
            wrong.push(format!("{who} deletes {name} and does not lead"));
        }
        if !is_crashing(pod) {
            wrong.push(format!(
                "{name} was deleted and was well: {}",
                pod["status"]
            ));
        }
        let is_calm = !self.is_troubled(at, SETTLED) && !self.is_shunned(at);
        if is_calm && !self.has_evidence(cluster, name) {
            wrong.push(format!("{name} was deleted without evidence"));
        }
        let service = self.services.entry(cluster.to_owned()).or_default();
        service.deletions += 1;
        let service = *service;
        if at > self.closes(service, at) {
            wrong.push(format!("{name} was deleted when no window was open"));
        }
        let opened = service.recovered.unwrap_or(self.case.start);
        if !self.is_troubled(at, at.since(opened) + SETTLED) {
            self.figures.held += 1;
            if service.deletions > CAP {
                wrong.push(format!("{name} was deleted beyond the cap"));
            }
            self.figures.capped += usize::from(service.deletions == CAP);
        }
        for text in wrong {
            self.case.complain(at, &format!("{cluster}: {text}"));
        }
    }

    /// What waited for etcd runs again: not too long after etcd is back.
    fn check_return(&mut self, cluster: &str, at: Time) {
        let service = self.services.get(cluster).copied().unwrap_or_default();
        let Some(recovered) = service.recovered.filter(|_| service.is_ready) else {
            return;
        };
        self.figures.returns += 1;
        let by = self.expected(recovered);
        if at > by {
            let late = at.since(by);
            let text = format!("{cluster}: its API server is back {late:?} later than it could be");
            self.case.complain(at, &text);
        }
    }

    /// When the last window is over that may be open: that of the etcd's return, or one that a weeder
    /// opens when it begins to act, or when it cannot know what it has missed.
    fn closes(&self, service: Service, at: Time) -> Time {
        let recovered = service.recovered;
        let first = self.expected(recovered.unwrap_or(self.case.start.after(SPREAD)));
        let is_elected = self.case.chaos.watchdogs > 1;
        let others = self.troubles(|fault| match fault {
            Fault::Crash | Fault::Pause | Fault::StaleReads(_) => true,
            // Who cannot renew the Lease loses it.
            _ => is_elected,
        });
        let others = others.filter(|(begin, _)| *begin <= at);
        let last = others.fold(first, |last, (_, end)| last.max(end.after(SETTLED)));
        last.after(WINDOW)
    }

    /// When all is well again after etcd has come back then.
    fn expected(&self, recovered: Time) -> Time {
        let mut by = recovered.after(SOON);
        let mut troubles: Vec<(Time, Time)> = self.troubles(|_| true).collect();
        troubles.sort_unstable();
        for (begin, end) in troubles {
            if begin <= by && end.after(SETTLED) >= recovered {
                by = by.max(end.after(SETTLED));
            }
        }
        by
    }

    /// Something was wrong with the seed or with a weeder within so long before.
    fn is_troubled(&self, at: Time, within: Duration) -> bool {
        let mut troubles = self.troubles(|_| true);
        troubles.any(|(begin, end)| begin <= at && at.since(end) <= within)
    }

    /// Whether the right to post Events may still be taken to be missing.
    fn is_shunned(&self, at: Time) -> bool {
        let mut denials =
            self.troubles(|fault| matches!(fault, Fault::Refusal { status: 403, .. }));
        denials.any(|(begin, end)| begin <= at && at.since(end) <= SHUNNED)
    }

    fn is_stale(&self, at: Time) -> bool {
        self.case.chaos.scenario.incidents.iter().any(|incident| {
            let (begin, end) = self.case.times(incident);
            matches!(incident.fault, Fault::StaleReads(_)) && begin <= at && at <= end.after(SOON)
        })
    }

    /// What is wrong with the seed or with a weeder, from when to when.
    fn troubles(&self, which: impl Fn(&Fault) -> bool) -> impl Iterator<Item = (Time, Time)> {
        let incidents = self.case.chaos.scenario.incidents.iter();
        let troubles = incidents.filter(move |one| is_trouble(&one.fault) && which(&one.fault));
        troubles.map(|incident| match incident.fault {
            // It is done at once, whatever length it has.
            Fault::WatchDrop => (self.case.times(incident).0, self.case.times(incident).0),
            _ => self.case.times(incident),
        })
    }

    fn has_evidence(&self, namespace: &str, pod: &str) -> bool {
        let seed = self.case.landscape.seed();
        let events = seed.store().list(&EVENTS, &Selection::all());
        let is_about = |event: &Value| {
            let about = &event["involvedObject"];
            event["reason"] == "Weeded" && about["name"] == pod && about["namespace"] == namespace
        };
        events.is_ok_and(|(events, _)| events.iter().any(is_about))
    }
}

/// Whether a fault is one of the seed or of a weeder; others do not concern it.
fn is_trouble(fault: &Fault) -> bool {
    match fault {
        Fault::Outage(site)
        | Fault::Latency(site, _)
        | Fault::Stall(site)
        | Fault::StaleReads(site)
        | Fault::Refusal { site, .. } => *site == Site::Seed,
        Fault::WatchDrop | Fault::Crash | Fault::Pause => true,
        _ => false,
    }
}

/// Whether a container waits in the back-off of those that crash.
fn is_crashing(pod: &Value) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array();
    let waits = |container: &Value| container["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    containers.is_some_and(|containers| containers.iter().any(waits))
}

fn follow(case: &Case, resource: &Resource) -> Watch {
    let seed = case.landscape.seed();
    seed.store()
        .watch(resource, Selection::all(), None)
        .unwrap()
}

/// Namespace and name.
fn place(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}
