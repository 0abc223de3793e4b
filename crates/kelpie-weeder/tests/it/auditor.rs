//! Checks the weeder's invariants by the seed's objects, never by what the weeder reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kelpie_chaos::AuditContext;
use kelpie_core::Time;
use kelpie_sim::resource::{ENDPOINT_SLICES, EVENTS, GroupResource, PODS};
use kelpie_sim::scenario::{Fault, FaultSite};
use kelpie_sim::{ObjectSelector, ObjectWatch, PodTransition, SimEvent, SimEventKind, StoreEvent};
use serde_json::Value;

use crate::decoys::{self, DECOY_PREFIX};

/// The duration of a watch window, and the delay up to which a process spreads its first windows.
const WINDOW: Duration = Duration::from_mins(5);
const SPREAD: Duration = Duration::from_secs(30);

/// The largest number of deletions per window for an owner with a single pod.
const CAP: u32 = 3;

/// The time in which the weeder reacts to a recovery and a new pod starts.
const REACTION_TIME: Duration = Duration::from_secs(20);

/// The longest time in flight of a request whose sender was not paused.
const LATE: Duration = Duration::from_secs(10);

/// The time after a disturbance in which the weeder catches up.
const RECOVERY_TIME: Duration = Duration::from_secs(150);

/// The time for which the weeder leaves a namespace alone after it was denied to create Events
/// there.
const EVENT_BACK_OFF: Duration = Duration::from_mins(10);

/// Counters of the situations that were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AuditCounts {
    pub(crate) deletions: usize,
    /// The deletions in windows without any fault but etcd outages.
    pub(crate) undisturbed_deletions: usize,
    /// The API servers that returned after a recovery of etcd, by a deletion or by themselves.
    pub(crate) returns: usize,
    /// The windows in which the cap was reached.
    pub(crate) capped: usize,
    /// The deletions that a pause held in flight.
    pub(crate) late: usize,
}

/// The etcd Service of a cluster, as its `EndpointSlice` shows it.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    is_ready: bool,
    /// The time of the last recovery. `None` if it was never down.
    recovered: Option<Time>,
    /// The pods that were deleted since the last recovery.
    deletions: u32,
}

pub(crate) struct Auditor {
    context: AuditContext,
    slices: ObjectWatch,
    pods: ObjectWatch,
    /// The etcd Service of each cluster.
    services: BTreeMap<String, Service>,
    /// Replicas, and the pods whose deletion the server confirmed to them.
    acknowledged: BTreeSet<(String, String)>,
    /// True if the deletion being checked was in flight for long.
    is_late: bool,
    counts: AuditCounts,
}

impl kelpie_chaos::Auditor for Auditor {
    type Counts = AuditCounts;

    fn new(context: AuditContext) -> Self {
        let seed = context.landscape.seed();
        for snapshot in context.landscape.snapshot() {
            decoys::create_all(seed.store(), &snapshot.cluster);
        }
        let start = context.start;
        let mut auditor = Self {
            slices: watch_all(&context, &ENDPOINT_SLICES),
            pods: watch_all(&context, &PODS),
            context,
            services: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            is_late: false,
            counts: AuditCounts::default(),
        };
        auditor.take_slices(start);
        auditor.take_pods(None, start);
        auditor
    }

    fn context(&mut self) -> &mut AuditContext {
        &mut self.context
    }

    fn counts(&self) -> AuditCounts {
        self.counts
    }

    fn observe(&mut self, event: &SimEvent) {
        let at = event.at;
        self.take_slices(at);
        match &event.kind {
            SimEventKind::Request {
                user,
                received_at,
                was_held,
                verb: "delete",
                path,
                status,
                ..
            } if path.contains("/pods/") => {
                self.is_late = at.since(*received_at) > LATE;
                let is_acknowledged = *status == 200 && !was_held;
                self.check_request(user, path, is_acknowledged, at);
                self.counts.late += usize::from(self.is_late);
                self.take_pods(Some(user), at);
            }
            SimEventKind::ApiServerPod {
                cluster,
                transition: PodTransition::Started,
            } => self.check_return(cluster, at),
            _ => self.take_pods(None, at),
        }
    }

    /// At the end all API servers run.
    fn finish(&mut self) {
        let now = self.context.landscape.now();
        self.take_pods(None, now);
        for snapshot in self.context.landscape.snapshot() {
            if snapshot.is_down {
                let text = format!("{}: API server is not back", snapshot.cluster);
                self.context.report_violation(now, &text);
            }
        }
    }
}

impl Auditor {
    fn take_slices(&mut self, at: Time) {
        while let Some(event) = self.slices.try_next() {
            let slice = match event {
                StoreEvent::Added(slice) | StoreEvent::Modified(slice) => slice,
                StoreEvent::Deleted(_) => continue,
                StoreEvent::Expired => {
                    self.slices = watch_all(&self.context, &ENDPOINT_SLICES);
                    continue;
                }
            };
            let (cluster, _) = namespaced_name(&slice);
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

    /// Processes the changes of pods since the last call. `user` is `None` if no replica made them.
    fn take_pods(&mut self, user: Option<&str>, at: Time) {
        while let Some(event) = self.pods.try_next() {
            match (event, user) {
                (StoreEvent::Deleted(pod), Some(user)) => self.check_deletion(user, &pod, at),
                (StoreEvent::Deleted(pod), None) => {
                    let (cluster, name) = namespaced_name(&pod);
                    let text = format!("{cluster}: {name} was deleted by an unknown client");
                    self.context.report_violation(at, &text);
                }
                (StoreEvent::Expired, _) => self.pods = watch_all(&self.context, &PODS),
                (StoreEvent::Added(_) | StoreEvent::Modified(_), _) => {}
            }
        }
    }

    /// Checks a replica's request to delete a pod. `is_acknowledged` tells whether it received a
    /// success.
    fn check_request(&mut self, user: &str, path: &str, is_acknowledged: bool, at: Time) {
        if path.contains(DECOY_PREFIX) {
            self.context
                .report_violation(at, &format!("{user} tried to delete the decoy {path}"));
        }
        let key = (user.to_owned(), path.to_owned());
        // A stale read may show the replica a deleted pod as another one.
        if self.acknowledged.contains(&key) && !self.is_stale(at) {
            let text = format!("{user} deletes {path} again after the deletion was acknowledged");
            self.context.report_violation(at, &text);
        }
        if is_acknowledged {
            self.acknowledged.insert(key);
        }
    }

    /// Checks a deletion by a replica.
    fn check_deletion(&mut self, user: &str, pod: &Value, at: Time) {
        self.counts.deletions += 1;
        let (cluster, name) = namespaced_name(pod);
        let mut violations = Vec::new();
        // A replica that was paused in the middle of the request may have led when it was sent.
        if !self.is_late && !self.context.may_act(user) {
            violations.push(format!("{user} deletes {name} but is not the leader"));
        }
        if !is_crashing(pod) {
            violations.push(format!(
                "{name} was deleted while healthy: {}",
                pod["status"]
            ));
        }
        let is_undisturbed = !self.was_disturbed(at, RECOVERY_TIME) && !self.are_events_denied(at);
        if is_undisturbed && !self.has_evidence(cluster, name) {
            violations.push(format!("{name} was deleted without evidence"));
        }
        let service = self.services.entry(cluster.to_owned()).or_default();
        service.deletions += 1;
        let service = *service;
        if at > self.last_window_end(service, at) {
            violations.push(format!("{name} was deleted outside of a window"));
        }
        let opened = service.recovered.unwrap_or(self.context.start);
        if !self.was_disturbed(at, at.since(opened) + RECOVERY_TIME) {
            self.counts.undisturbed_deletions += 1;
            if service.deletions > CAP {
                violations.push(format!("{name} was deleted beyond the cap"));
            }
            self.counts.capped += usize::from(service.deletions == CAP);
        }
        for text in violations {
            self.context
                .report_violation(at, &format!("{cluster}: {text}"));
        }
    }

    /// Checks that the API server is back soon enough after etcd.
    fn check_return(&mut self, cluster: &str, at: Time) {
        let service = self.services.get(cluster).copied().unwrap_or_default();
        let Some(recovered) = service.recovered.filter(|_| service.is_ready) else {
            return;
        };
        self.counts.returns += 1;
        let by = self.expected_by(recovered);
        if at > by {
            let late = at.since(by);
            let text = format!("{cluster}: API server is back {late:?} too late");
            self.context.report_violation(at, &text);
        }
    }

    /// Returns the end of the last window that may be open: that of etcd's recovery, or one that a
    /// replica opens when it starts to act or may have missed a recovery.
    fn last_window_end(&self, service: Service, at: Time) -> Time {
        let recovered = service.recovered;
        let first = self.expected_by(recovered.unwrap_or(self.context.start.after(SPREAD)));
        let is_elected = self.context.chaos.watchdogs > 1;
        let others = self.disturbances(|fault| match fault {
            Fault::Crash | Fault::Pause | Fault::StaleReads { .. } => true,
            // A replica that cannot renew the Lease loses it.
            _ => is_elected,
        });
        let others = others.filter(|(begin, _)| *begin <= at);
        let last = others.fold(first, |last, (_, end)| last.max(end.after(RECOVERY_TIME)));
        last.after(WINDOW)
    }

    /// Returns the time by which the API server has to be back after a recovery of etcd.
    fn expected_by(&self, recovered: Time) -> Time {
        let mut by = recovered.after(REACTION_TIME);
        let mut disturbances: Vec<(Time, Time)> = self.disturbances(|_| true).collect();
        disturbances.sort_unstable();
        for (begin, end) in disturbances {
            if begin <= by && end.after(RECOVERY_TIME) >= recovered {
                by = by.max(end.after(RECOVERY_TIME));
            }
        }
        by
    }

    /// Returns whether a fault disturbed the seed or a replica up to `within` before.
    fn was_disturbed(&self, at: Time, within: Duration) -> bool {
        let mut disturbances = self.disturbances(|_| true);
        disturbances.any(|(begin, end)| begin <= at && at.since(end) <= within)
    }

    /// Returns whether a replica may still believe that it is not allowed to create Events.
    fn are_events_denied(&self, at: Time) -> bool {
        let mut denials =
            self.disturbances(|fault| matches!(fault, Fault::Refusal { status: 403, .. }));
        denials.any(|(begin, end)| begin <= at && at.since(end) <= EVENT_BACK_OFF)
    }

    fn is_stale(&self, at: Time) -> bool {
        self.context
            .chaos
            .scenario
            .incidents
            .iter()
            .any(|incident| {
                let (begin, end) = self.context.period(incident);
                matches!(incident.fault, Fault::StaleReads { .. })
                    && begin <= at
                    && at <= end.after(REACTION_TIME)
            })
    }

    /// Returns the start and end of all matching faults of the seed or of a replica.
    fn disturbances(&self, which: impl Fn(&Fault) -> bool) -> impl Iterator<Item = (Time, Time)> {
        let incidents = self.context.chaos.scenario.incidents.iter();
        let disturbances = incidents
            .filter(move |incident| is_disturbance(&incident.fault) && which(&incident.fault));
        disturbances.map(|incident| match incident.fault {
            // It takes effect at once, whatever its duration.
            Fault::WatchDrop => (
                self.context.period(incident).0,
                self.context.period(incident).0,
            ),
            _ => self.context.period(incident),
        })
    }

    fn has_evidence(&self, namespace: &str, pod: &str) -> bool {
        let seed = self.context.landscape.seed();
        let events = seed.store().list(&EVENTS, &ObjectSelector::all());
        let is_about = |event: &Value| {
            let about = &event["involvedObject"];
            event["reason"] == "Weeded" && about["name"] == pod && about["namespace"] == namespace
        };
        events.is_ok_and(|(events, _)| events.iter().any(is_about))
    }
}

/// Returns whether a fault affects the seed or a replica. Other faults do not concern the weeder.
fn is_disturbance(fault: &Fault) -> bool {
    match fault {
        Fault::Outage(site)
        | Fault::Latency(site, _)
        | Fault::Stall(site)
        | Fault::BodyCut { site, .. }
        | Fault::StaleReads { site, .. }
        | Fault::Refusal { site, .. } => *site == FaultSite::Seed,
        Fault::WatchDrop | Fault::Crash | Fault::Pause | Fault::Dns | Fault::CpuStarvation => true,
        _ => false,
    }
}

/// Returns whether a container is in `CrashLoopBackOff`.
fn is_crashing(pod: &Value) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array();
    let waits = |container: &Value| container["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    containers.is_some_and(|containers| containers.iter().any(waits))
}

fn watch_all(context: &AuditContext, resource: &GroupResource) -> ObjectWatch {
    let seed = context.landscape.seed();
    seed.store()
        .watch(resource, ObjectSelector::all(), None)
        .unwrap()
}

/// Returns the namespace and name of an object.
fn namespaced_name(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}
