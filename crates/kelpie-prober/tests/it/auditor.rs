//! Checks the prober's invariants by the seed's Deployments and the real state of the nodes, never
//! by what the prober reports.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kelpie_chaos::{AuditContext, Oracle, PartitionTruth};
use kelpie_core::{Fraction, Time};
use kelpie_kube::lease_records::RECORDS_ANNOTATION;
use kelpie_sim::resource::{DEPLOYMENTS, LEASES};
use kelpie_sim::scenario::{Fault, FaultSite, Incident, NodeSelection};
use kelpie_sim::{LandscapePlan, ObjectSelector, ObjectWatch, SimEvent, SimEventKind, StoreEvent};
use serde_json::Value;

use crate::replica::LEASE;

pub(crate) const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
pub(crate) const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";

/// The default of `nodeLeaseFailureFraction`, called f below.
const FAILURE_FRACTION: f64 = 0.6;

/// The time without a renewal after which a node is silent: half the grace period, or two renewals.
const SILENT: Duration = Duration::from_secs(20);

/// The time without a renewal after which every observer knows that a node is lost, even during a
/// release.
const LOST: Duration = Duration::from_secs(50);

/// With wrong node clocks, renewals can only be dated by the lists before and after. A lease that
/// has not changed for a renew interval and a quarter is certain to be overdue.
const CERTAINLY_OVERDUE: Duration = Duration::from_millis(12_500);

/// A decision may be sent for this long after its reason has passed.
const SLACK: Duration = Duration::from_secs(10);

/// A fence stands until a list of leases disproves it. If another client scales a fenced target up,
/// the prober's reaction rests on a list that is up to a round old, and that list on the renewals
/// before it.
const FENCED_SLACK: Duration = Duration::from_secs(25);

/// A cache that stands still is recognized when its version has not moved for 15 s. The first list
/// with that version comes up to 12 s after the cache stopped. Until then its lists count.
const MISLED: Duration = Duration::from_secs(15 + 12);

/// An API server that went away before the nodes had renewed after a partition prolongs their
/// silence by so much at most.
const PROLONGED: Duration = Duration::from_secs(40);

/// The time without other faults after which a cluster's deadlines are checked.
const UNDISTURBED: Duration = Duration::from_mins(4);

/// An event of the timeline is less than this late.
const TICK: Duration = Duration::from_millis(100);

/// The replicas of a Deployment and its record, on itself or on the leader Lease.
#[derive(Clone, Debug, Default, PartialEq)]
struct TargetState {
    replicas: u64,
    is_marked: bool,
    record: Option<String>,
    uid: String,
    version: String,
}

impl TargetState {
    /// Adds the record on the leader Lease to a target that has none itself.
    fn with_lease(mut self, kept: Option<&LeaseEntry>) -> Self {
        if let Some((replicas, uid, _)) = kept
            && !self.is_marked
            && self.uid.starts_with(uid)
        {
            self.is_marked = true;
            self.record = Some(replicas.to_string());
        }
        self
    }

    /// Returns whether a decision about the target would be the same.
    fn is_like(&self, other: &Self) -> bool {
        let content = |state: &Self| (state.replicas, state.is_marked, state.record.clone());
        content(self) == content(other)
    }
}

/// A record on the leader Lease: the replicas, the beginning of the target's uid, and the version
/// on which the fence rests.
type LeaseEntry = (u64, String, String);

/// Counters of the situations that were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AuditCounts {
    pub(crate) fences: usize,
    /// The fences of kube-controller-manager.
    pub(crate) stops: usize,
    pub(crate) releases: usize,
    /// The partitions whose deadline was checked.
    pub(crate) deadline_checks: usize,
    /// The writes that a pause held in flight, and those of them that changed something.
    pub(crate) late: usize,
    pub(crate) late_applied: usize,
}

/// A replica that has written to a Deployment.
#[derive(Clone, Copy, Debug)]
struct Writer<'a> {
    user: &'a str,
    /// The arrival of the request, and the time of the write.
    received_at: Time,
    at: Time,
}

impl Writer<'_> {
    fn is_late(self) -> bool {
        self.at.since(self.received_at) > SLACK
    }
}

impl fmt::Display for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.user)
    }
}

pub(crate) struct Auditor {
    context: AuditContext,
    changes: ObjectWatch,
    targets: BTreeMap<(String, String), TargetState>,
    /// The records on the leader Lease.
    kept: BTreeMap<(String, String), LeaseEntry>,
    /// The time of each target's last change.
    changed: BTreeMap<(String, String), Time>,
    /// The time at which a replica last marked a target or scaled it down.
    fenced: BTreeMap<(String, String), Time>,
    /// The replicas that other clients have set since; by default those of the plan.
    desired: BTreeMap<(String, String), u64>,
    /// The real state of the nodes when a cluster was cut off last.
    truths: BTreeMap<String, PartitionTruth>,
    counts: AuditCounts,
}

impl kelpie_chaos::Auditor for Auditor {
    type Counts = AuditCounts;

    fn new(context: AuditContext) -> Self {
        let seed = context.landscape.seed();
        let changes = seed
            .store()
            .watch(&DEPLOYMENTS, ObjectSelector::all(), None);
        let start = context.start;
        let mut auditor = Self {
            context,
            changes: changes.unwrap(),
            targets: BTreeMap::new(),
            kept: BTreeMap::new(),
            changed: BTreeMap::new(),
            fenced: BTreeMap::new(),
            desired: BTreeMap::new(),
            truths: BTreeMap::new(),
            counts: AuditCounts::default(),
        };
        auditor.take_changes(None, start);
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
        match &event.kind {
            SimEventKind::Request {
                server,
                received_at,
                user,
                verb,
                path,
                ..
            } => {
                let is_write = !["get", "list", "watch"].contains(verb);
                if &**server == "seed" && is_write && path.contains("/deployments/") {
                    let writer = Writer {
                        user,
                        received_at: *received_at,
                        at,
                    };
                    self.counts.late += usize::from(writer.is_late());
                    self.take_changes(Some(writer), at);
                } else if &**server == "seed" && is_write && path.contains("/leases") {
                    self.take_changes(None, at);
                    self.take_records(at);
                }
            }
            SimEventKind::NodeUnknown { cluster, node } => {
                self.take_changes(None, at);
                if let Some(incident) = self.clean_partition(cluster, at) {
                    // The fence was in time, but its pods may stop slowly.
                    if self.target(cluster, 0).replicas > 0 {
                        let text = format!("{cluster}: {node} turned Unknown during {incident}");
                        self.context.report_violation(at, &text);
                    }
                } else if self.target(cluster, 0).replicas > 0 && self.was_possible(cluster, at) {
                    let text = format!("{cluster}: {node} turned Unknown, not inevitably");
                    self.context.report_violation(at, &text);
                }
            }
            SimEventKind::FaultBegan { .. } => {
                self.take_changes(None, at);
                self.capture_truths(at);
            }
            SimEventKind::FaultEnded { .. } => {
                self.take_changes(None, at);
                self.check_ended_partitions(at);
            }
            _ => self.take_changes(None, at),
        }
    }

    /// At the end everything is as before, or as other clients have set it since.
    fn finish(&mut self) {
        let now = self.context.landscape.now();
        self.take_changes(None, now);
        for snapshot in self.context.landscape.snapshot() {
            for (index, name) in LandscapePlan::CONTROLLERS.into_iter().enumerate() {
                let key = (snapshot.cluster.clone(), name.to_owned());
                let target = self.targets.get(&key).cloned().unwrap_or_default();
                // While a target is unchanged, a write that rests on its record may still happen.
                let kept = self.kept.get(&key).filter(|kept| kept.2 != target.version);
                let planned = u64::from(self.context.chaos.plan.replicas[index]);
                let desired = self.desired.get(&key).copied().unwrap_or(planned);
                if target.replicas != desired || target.is_marked || kept.is_some() {
                    let text = format!(
                        "{}: {name} is not in its original state: {target:?}",
                        snapshot.cluster
                    );
                    self.context.report_violation(now, &text);
                }
            }
        }
    }
}

impl Auditor {
    /// Reads the records on the leader Lease.
    fn take_records(&mut self, at: Time) {
        let seed = self.context.landscape.seed();
        let lease = seed.store().get(&LEASES, "garden", LEASE).ok();
        let text = lease.and_then(|lease| {
            let text = &lease["metadata"]["annotations"][RECORDS_ANNOTATION];
            text.as_str().map(str::to_owned)
        });
        let targets: BTreeMap<String, BTreeMap<String, LeaseEntry>> =
            serde_json::from_str(text.as_deref().unwrap_or("{}")).unwrap();
        let mut kept = BTreeMap::new();
        for (target, records) in targets {
            let name = target.rsplit(' ').next().unwrap_or_default().to_owned();
            kept.extend(
                records
                    .into_iter()
                    .map(|(namespace, record)| ((namespace, name.clone()), record)),
            );
        }
        let before = std::mem::replace(&mut self.kept, kept);
        for (key, (_, uid, _)) in before {
            let target = self.targets.get(&key).cloned().unwrap_or_default();
            let is_lost = !self.kept.contains_key(&key) && target.uid.starts_with(&uid);
            if is_lost && target.replicas == 0 && !target.is_marked {
                let (cluster, name) = key;
                let text = format!("{cluster}: {name} stays fenced without its record");
                self.context.report_violation(at, &text);
            }
        }
    }

    fn target(&self, cluster: &str, index: usize) -> TargetState {
        let key = (
            cluster.to_owned(),
            LandscapePlan::CONTROLLERS[index].to_owned(),
        );
        self.targets.get(&key).cloned().unwrap_or_default()
    }

    /// Processes the changes of Deployments since the last call. `writer` is `None` if no replica
    /// made them.
    fn take_changes(&mut self, writer: Option<Writer<'_>>, at: Time) {
        while let Some(event) = self.changes.try_next() {
            let object = match event {
                StoreEvent::Added(object) | StoreEvent::Modified(object) => object,
                StoreEvent::Deleted(_) | StoreEvent::Expired => continue,
            };
            let (key, after) = read(&object);
            let before = self.targets.insert(key.clone(), after.clone());
            let kept = self.kept.get(&key);
            let before = before.unwrap_or_else(|| after.clone()).with_lease(kept);
            let after = after.with_lease(kept);
            if before.is_like(&after) {
                continue;
            }
            let changed = self.changed.insert(key.clone(), at);
            match writer {
                Some(writer) => {
                    if writer.is_late() && changed > Some(writer.received_at) {
                        let text = format!("{}: {writer} undoes a newer change: {before:?}", key.0);
                        self.context.report_violation(at, &text);
                    }
                    self.check_write(writer, &key, &before, &after);
                }
                // A marked target at 0 is restored from its record, no matter which client stopped
                // it.
                None if after.is_marked && after.replicas == 0 => {}
                None => {
                    self.desired.insert(key, after.replicas);
                }
            }
        }
    }

    /// Checks a write of a replica.
    fn check_write(
        &mut self,
        writer: Writer<'_>,
        key: &(String, String),
        before: &TargetState,
        after: &TargetState,
    ) {
        let (at, (cluster, name)) = (writer.at, key);
        // A write that was held by a pause may have been right when it was sent. The auditor only
        // requires that it undoes nothing newer; the current leader repairs the rest.
        // The same holds for a write that was sent while the replica got no CPU: it is delivered
        // when that ends.
        let is_starved = |fault: &Fault| *fault == Fault::CpuStarvation;
        let is_late = writer.is_late() || self.was_affected(cluster, at, TICK, is_starved);
        self.counts.late_applied += usize::from(is_late);
        let fenced = self.fenced.get(key);
        let was_fenced = before.is_marked && fenced.is_some_and(|fenced| at.since(*fenced) > SLACK);
        // The decision is older than the request, which the seed may answer slowly.
        let slack = if was_fenced { FENCED_SLACK } else { SLACK } + at.since(writer.received_at);
        let is_marked = after.is_marked && !before.is_marked;
        // Every replica may fence, because a fence rests on evidence. Only the leader restores.
        let fences = after.replicas < before.replicas
            || is_marked && self.are_leases_stale(cluster, at, slack);
        if !is_late && !fences && !self.context.may_act(writer.user) {
            let text = format!("{cluster}: {writer} writes {name} but is not the leader");
            self.context.report_violation(at, &text);
        }
        if is_marked || after.replicas < before.replicas {
            self.fenced.insert(key.clone(), at);
        }
        if after.replicas < before.replicas {
            self.counts.fences += 1;
            self.counts.stops += usize::from(name == LandscapePlan::CONTROLLERS[0]);
            // The record may be written before the fence or together with it.
            let true_record = Some(before.replicas.to_string());
            // The record is written before the replicas, or with them.
            let is_recorded = after.is_marked && after.record == true_record;
            if !is_recorded {
                let text = format!("{cluster}: {name} scaled down without its record: {before:?}");
                self.context.report_violation(at, &text);
            }
            let is_excused = is_late || self.was_misled(cluster, at);
            if !is_excused && !self.was_partitioned(cluster, at, slack) {
                let text = format!("{cluster}: {name} scaled down although no node was cut off");
                self.context.report_violation(at, &text);
            }
            if !is_excused && !self.are_leases_stale(cluster, at, slack) {
                let text = format!("{cluster}: {name} scaled down while leases keep changing");
                self.context.report_violation(at, &text);
            }
            self.check_margin(cluster, name, at);
        } else if after.replicas > before.replicas {
            if !before.is_marked {
                let text = format!("{cluster}: {name} scaled up without the marker: {before:?}");
                self.context.report_violation(at, &text);
            }
            if before.record != Some(after.replicas.to_string()) {
                let text = format!("{cluster}: {name} not restored: {before:?} -> {after:?}");
                self.context.report_violation(at, &text);
            }
            self.counts.releases += 1;
            if !is_late && self.are_leases_still_stale(key, at) {
                let text = format!("{cluster}: {name} scaled up while its nodes are still silent");
                self.context.report_violation(at, &text);
            }
        } else if before.is_marked && !after.is_marked && after.replicas == 0 {
            let text = format!("{cluster}: {name} stays fenced without its marker");
            self.context.report_violation(at, &text);
        }
    }

    /// Returns whether f of the nodes are silent, or were up to `slack` ago.
    fn are_leases_stale(&self, cluster: &str, at: Time, slack: Duration) -> bool {
        let threshold = if self.had_wrong_clocks(cluster, at) {
            CERTAINLY_OVERDUE
        } else {
            SILENT
        };
        self.enough_nodes_match(cluster, |now, before| {
            now >= threshold || (now <= slack && before >= threshold)
        })
    }

    /// Returns whether f of the nodes have not renewed since a target was fenced, or for so long
    /// that every observer knows. A decision to fence may have been in flight while they were back.
    fn are_leases_still_stale(&self, key: &(String, String), at: Time) -> bool {
        let fenced = self
            .fenced
            .get(key)
            .map_or(at, |fenced| fenced.before(SLACK));
        self.enough_nodes_match(&key.0, |now, _| {
            now >= LOST || (now >= SILENT && at.before(now) < fenced)
        })
    }

    /// Returns whether f of the nodes match, by the time since their last renewal and the gap
    /// before it.
    fn enough_nodes_match(
        &self,
        cluster: &str,
        predicate: impl Fn(Duration, Duration) -> bool,
    ) -> bool {
        let Some(ground_truth) = self.context.landscape.ground_truth(cluster) else {
            return false;
        };
        let matching = ground_truth
            .renewal_gaps
            .iter()
            .filter(|(now, before)| predicate(*now, *before));
        let (matching, all) = (matching.count(), ground_truth.renewal_gaps.len());
        Fraction::new(FAILURE_FRACTION)
            .unwrap()
            .is_reached(matching.try_into().unwrap(), all.try_into().unwrap())
    }

    /// Returns whether node clocks are wrong, or were so recently that renewals are still dated by
    /// them.
    fn had_wrong_clocks(&self, cluster: &str, at: Time) -> bool {
        self.was_affected(cluster, at, UNDISTURBED, |fault| {
            matches!(fault, Fault::NodeClock(..))
        })
    }

    /// Returns whether some nodes are cut off from a running API server, or were up to `slack` ago.
    /// An outage after the partition keeps the nodes from renewing for longer.
    fn was_partitioned(&self, cluster: &str, at: Time, slack: Duration) -> bool {
        let is_prolonged = self.was_affected(cluster, at, PROLONGED, |fault| {
            matches!(fault, Fault::Outage(FaultSite::Shoot) | Fault::EtcdOutage)
        });
        let slack = if is_prolonged {
            slack + PROLONGED
        } else {
            slack
        };
        self.was_affected(cluster, at, slack, |fault| {
            matches!(fault, Fault::Partition(_))
        })
    }

    /// Returns whether all lists of the cluster come from a cache that has stood still for so short
    /// a time that it cannot be recognized, or came from one when a fence was decided on.
    fn was_misled(&self, cluster: &str, at: Time) -> bool {
        let incidents = self.context.chaos.scenario.incidents.iter();
        let mut stale = incidents.filter(|incident| {
            let is_stale = matches!(
                incident.fault,
                Fault::StaleReads {
                    site: FaultSite::Shoot,
                    share: 1.0
                }
            );
            is_stale && self.context.affects(incident, cluster)
        });
        stale.any(|incident| {
            let (begin, _) = self.context.period(incident);
            begin <= at && at <= begin.after(MISLED + SLACK)
        })
    }

    /// Returns whether a matching fault affects the cluster, or did up to `within` ago.
    fn was_affected(
        &self,
        cluster: &str,
        at: Time,
        within: Duration,
        predicate: impl Fn(&Fault) -> bool,
    ) -> bool {
        self.context
            .chaos
            .scenario
            .incidents
            .iter()
            .any(|incident| {
                let (begin, end) = self.context.period(incident);
                predicate(&incident.fault)
                    && (incident.fault.is_global() || self.context.affects(incident, cluster))
                    && begin <= at
                    && at <= end.after(within)
            })
    }

    fn check_margin(&mut self, cluster: &str, name: &str, at: Time) {
        if name != LandscapePlan::CONTROLLERS[0] || self.clean_partition(cluster, at).is_none() {
            return;
        }
        self.counts.deadline_checks += 1;
        let deadline = self
            .context
            .landscape
            .ground_truth(cluster)
            .and_then(|ground_truth| ground_truth.deadline);
        if let Some(deadline) = deadline
            && at > deadline
        {
            let late = at.since(deadline);
            self.context
                .report_violation(at, &format!("{cluster}: fenced {late:?} too late"));
        }
    }

    /// Checks that a long partition was fenced before it ended.
    fn check_ended_partitions(&mut self, at: Time) {
        for snapshot in self.context.landscape.snapshot() {
            let cluster = &snapshot.cluster;
            let ended = |incident: &Incident| {
                let (_, end) = self.context.period(incident);
                let long = incident.lasts > Some(Duration::from_secs(50));
                at >= end && at.since(end) < TICK && long
            };
            let Some(incident) = self.clean_partition(cluster, at).filter(ended) else {
                continue;
            };
            if self.target(cluster, 0).replicas > 0 {
                self.context
                    .report_violation(at, &format!("{cluster}: not fenced during {incident}"));
            }
        }
    }

    /// Reads the renewals of clusters that have just been cut off.
    fn capture_truths(&mut self, at: Time) {
        for snapshot in self.context.landscape.snapshot() {
            let cluster = snapshot.cluster;
            let begins = self.near(&cluster, at).into_iter().any(|incident| {
                let is_cut = incident.fault == Fault::Partition(NodeSelection::All);
                is_cut && at.since(self.context.period(incident).0) < TICK
            });
            if begins && let Some(truth) = self.context.landscape.ground_truth(&cluster) {
                let renewals = truth.renewal_gaps.iter();
                let truth = PartitionTruth {
                    cut_at: at,
                    renewals: renewals.map(|(gap, _)| at.before(*gap)).collect(),
                    candidates: truth.renewal_gaps.len(),
                };
                self.truths.insert(cluster, truth);
            }
        }
    }

    /// Returns whether a fence in time was possible, in a partition of all nodes with exactly one
    /// further fault.
    fn was_possible(&self, cluster: &str, at: Time) -> bool {
        let Some(truth) = self.truths.get(cluster) else {
            return false;
        };
        let near = self.near(cluster, at);
        let is_partition = |incident: &&&Incident| matches!(incident.fault, Fault::Partition(_));
        let cut = near.iter().filter(is_partition).collect::<Vec<_>>();
        let [cut] = cut[..] else { return false };
        let (begin, end) = self.context.period(cut);
        let is_truth_of_cut = truth.cut_at >= begin && truth.cut_at.since(begin) < TICK;
        let is_whole = cut.fault == Fault::Partition(NodeSelection::All);
        if near.len() != 2 || !is_truth_of_cut || !is_whole || at > end {
            return false;
        }
        let chaos = &self.context.chaos;
        let fraction = Fraction::new(FAILURE_FRACTION).unwrap();
        let faults = self.context.other_faults(cluster);
        let oracle = Oracle::new(faults, chaos.watchdogs, chaos.plan.grace_period, fraction);
        oracle
            .outlook(truth)
            .is_some_and(|outlook| outlook.is_possible())
    }

    /// Returns the incidents that affect a cluster, or did lately.
    fn near(&self, cluster: &str, at: Time) -> Vec<&Incident> {
        let incidents = self.context.chaos.scenario.incidents.iter();
        let near = incidents.filter(|incident| {
            let (begin, end) = self.context.period(incident);
            let is_here = incident.fault.is_global() || self.context.affects(incident, cluster);
            is_here && begin <= at && at <= end.after(UNDISTURBED)
        });
        near.collect()
    }

    /// Returns the partition of at least f of a cluster's nodes, if no other fault interferes.
    fn clean_partition(&self, cluster: &str, at: Time) -> Option<Incident> {
        let mut found = None;
        for incident in self.near(cluster, at) {
            let (_, end) = self.context.period(incident);
            match &incident.fault {
                Fault::Partition(nodes) if at <= end && found.is_none() => {
                    if !self.trips(*nodes) {
                        return None;
                    }
                    found = Some(incident.clone());
                }
                Fault::NodeClock(..)
                | Fault::WatchdogClock(_)
                | Fault::Rotation
                | Fault::SlowPods(_)
                | Fault::WatchDrop => {}
                _ => return None,
            }
        }
        found
    }

    /// Returns whether these nodes are at least f of a cluster's nodes, and at least two.
    fn trips(&self, nodes: NodeSelection) -> bool {
        let (affected, all) = (
            self.context.count_nodes(nodes),
            self.context.chaos.plan.nodes,
        );
        let f = Fraction::new(FAILURE_FRACTION).unwrap();
        f.is_reached(affected.try_into().unwrap(), all.try_into().unwrap())
    }
}

fn read(object: &Value) -> ((String, String), TargetState) {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let annotations = &metadata["annotations"];
    let target = TargetState {
        replicas: object["spec"]["replicas"].as_u64().unwrap_or(1),
        is_marked: annotations.get(MARKER).is_some(),
        record: annotations[RECORD].as_str().map(str::to_owned),
        uid: text("uid"),
        version: text("resourceVersion"),
    };
    ((text("namespace"), text("name")), target)
}
