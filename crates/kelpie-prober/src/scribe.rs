//! Tells people what a probe does: log, metrics, Events, the board. One value in, all of them out.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use kelpie_core::fence::{
    Call, Direction, FlowReport, Purpose, Sight, Step, TargetOutcome, destination,
};
use kelpie_core::{Decision, Fence, Observation, Outcome, Rule, Target, Time, Verdict};
use kelpie_kube::seed::{Events, Note, NoteKind, ObjectRef};
use tracing::{info, warn};

use crate::board::{LastFlow, Place, TargetState};
use crate::eyes::Sighting;
use crate::metrics::ClusterMetrics;
use crate::part::{Named, Part};

/// Where Events go.
#[derive(Clone)]
pub(crate) struct EventLog {
    pub(crate) events: Events,
    /// Of Events about Clusters, which themselves are in none.
    pub(crate) namespace: Arc<str>,
}

/// The chronicler of one probe.
pub(crate) struct Scribe {
    cluster: Arc<str>,
    targets: Arc<[Target]>,
    place: Place,
    metrics: ClusterMetrics,
    /// `None`: nothing is written to the seed.
    events: Option<EventLog>,
    last: Option<(Verdict, mem::Discriminant<Rule>)>,
    troubles: BTreeMap<Part, String>,
    fenced_since: Option<Time>,
    trip: Option<Trip>,
    /// The Event that this replica fences is out.
    fencing_was_told: bool,
    /// What went wrong with the fence that is being made, once each.
    told_failures: BTreeSet<(usize, String)>,
    /// What a dry run would do.
    plan: String,
}

/// What a fence is measured against.
#[derive(Debug)]
struct Trip {
    since: Time,
    /// The deadline the first decision of the trip worked against.
    deadline: Option<Time>,
    /// The targets that were fenced since.
    measured: BTreeSet<usize>,
}

impl Trip {
    /// Seconds left to the deadline; negative: it was missed.
    fn margin(&self, at: Time) -> Option<f64> {
        let deadline = self.deadline?;
        Some(deadline.since(at).as_secs_f64() - at.since(deadline).as_secs_f64())
    }
}

impl Scribe {
    pub(crate) fn new(
        cluster: Arc<str>,
        targets: Arc<[Target]>,
        place: Place,
        metrics: ClusterMetrics,
        events: Option<EventLog>,
    ) -> Self {
        Self {
            cluster,
            targets,
            place,
            metrics,
            events,
            last: None,
            troubles: BTreeMap::new(),
            fenced_since: None,
            trip: None,
            fencing_was_told: false,
            told_failures: BTreeSet::new(),
            plan: String::new(),
        }
    }

    /// A round saw something, and this was decided on it.
    pub(crate) fn round(&mut self, planned: Time, sighting: Sighting, decision: &Decision) {
        let Observation {
            start,
            end,
            api_server,
            external,
            ..
        } = sighting.observation;
        self.metrics.all.round(planned, start, end);
        for traffic in &sighting.traffic {
            self.metrics.all.traffic(traffic);
        }
        if api_server == Outcome::Failure {
            self.metrics.internal_failures.inc();
        }
        if external == Some(Outcome::Failure) {
            self.metrics.external_failures.inc();
        }
        if decision.reasons.lease_probe_failed() {
            self.metrics.lease_failures.inc();
        }
        for (part, why) in sighting.parts {
            self.trouble(part, why);
        }
    }

    /// A round ended in a decision; `acts`: this replica carries it out.
    pub(crate) fn decided(&mut self, decision: &Decision, fence: Fence, acts: bool) {
        self.metrics.decided(decision);
        self.note_trip(decision);
        self.note_fence(fence, decision.at);
        let fenced_since = self.fenced_since;
        self.place.update(|state| {
            state.decision = Some(*decision);
            state.fence = Some(fence);
            state.fenced_since = fenced_since;
        });
        let verdict = decision.verdict;
        self.fencing_was_told &= acts && verdict == Verdict::Fence;
        let kind = (verdict, mem::discriminant(&decision.reasons.rule));
        let before = self.last.replace(kind);
        if before == Some(kind) {
            return;
        }
        let cluster = &*self.cluster;
        let deadline = decision.deadline.map(tracing::field::display);
        if verdict == Verdict::Fence {
            warn!(cluster, %verdict, acts, deadline, "{decision}");
        } else {
            info!(cluster, %verdict, acts, deadline, "{decision}");
        }
        if !acts || before.is_some_and(|(before, _)| before == verdict) {
            return;
        }
        let reasons = decision.reasons.to_string();
        match (verdict, fence) {
            (Verdict::Fence, _) => self.tell_fencing(reasons),
            (Verdict::Release, Fence::Partial | Fence::Full) => {
                self.tell_cluster(NoteKind::Normal, "Releasing", reasons);
            }
            _ => {}
        }
    }

    fn tell_fencing(&mut self, reasons: String) {
        if !mem::replace(&mut self.fencing_was_told, true) {
            self.tell_cluster(NoteKind::Warning, "Fencing", reasons);
        }
    }

    fn note_trip(&mut self, decision: &Decision) {
        let since = match decision.reasons.rule {
            Rule::Tripped { since, .. } => since,
            Rule::ExternalUnhealthy => self.trip.as_ref().map_or(decision.at, |trip| trip.since),
            // Nothing is said about the trip: what is under way goes on.
            Rule::ListFailed | Rule::ApiServerNotHealthy => return,
            _ => {
                self.trip = None;
                return;
            }
        };
        if self.trip.as_ref().is_none_or(|trip| trip.since != since) {
            self.trip = Some(Trip {
                since,
                deadline: decision.deadline,
                measured: BTreeSet::new(),
            });
        }
    }

    fn note_fence(&mut self, fence: Fence, at: Time) {
        self.fenced_since = match fence {
            Fence::Partial | Fence::Full => self.fenced_since.or(Some(at)),
            Fence::None => None,
            Fence::Unknown => self.fenced_since,
        };
        self.metrics.fenced(self.fenced_since);
    }

    /// A part works (`None`), or does not, and why. Only what is new is told.
    pub(crate) fn trouble(&mut self, part: Part, why: Option<String>) {
        let cluster = &*self.cluster;
        match why {
            None => {
                let Some(was) = self.troubles.remove(&part) else {
                    return;
                };
                info!(cluster, was, "{} works again", Named(part, &self.targets));
            }
            Some(why) => {
                if self.troubles.get(&part) == Some(&why) {
                    return;
                }
                warn!(cluster, "{}: {why}", Named(part, &self.targets));
                self.troubles.insert(part, why);
            }
        }
        let troubles = self.troubles_in_words();
        self.place.update(|state| state.troubles = troubles);
    }

    /// The targets were read or written.
    pub(crate) fn saw<'t>(&self, sights: impl Iterator<Item = (&'t Target, Option<&'t Sight>)>) {
        let targets = sights.map(|(target, sight)| TargetState {
            resource: target.resource.clone(),
            sight: sight.cloned(),
        });
        let targets = targets.collect();
        self.place.update(|state| state.targets = targets);
    }

    /// In a dry run: what would be done, whenever that changes.
    pub(crate) fn would<'t>(
        &mut self,
        verdict: Verdict,
        sights: impl Iterator<Item = (&'t Target, Option<&'t Sight>)>,
    ) {
        let changes: Vec<String> = sights
            .filter_map(|(target, sight)| would(verdict, target, sight?))
            .collect();
        let plan = changes.join(", ");
        if plan != self.plan {
            let cluster = &*self.cluster;
            match plan.as_str() {
                "" => info!(cluster, "dry run: nothing would be scaled now"),
                plan => warn!(cluster, "dry run: would scale {plan}"),
            }
            self.plan = plan;
        }
    }

    /// The deadline beat the order of the levels.
    pub(crate) fn rushed(&self, index: usize) {
        let Some(target) = self.targets.get(index) else {
            return;
        };
        let (cluster, target) = (&*self.cluster, &target.resource);
        warn!(cluster, %target, "the deadline is near: fenced without waiting for lower levels");
        let message =
            format!("{target} is fenced without waiting for lower levels: no time is left");
        self.tell_cluster(NoteKind::Warning, "DeadlineBeatsOrder", message);
    }

    /// A call goes out.
    pub(crate) fn calling(&mut self, step: &Step) {
        if step.purpose != Purpose::Attempt {
            return;
        }
        if let Call::ScaleUp(_) = step.call {
            self.metrics.scaling(Direction::Up);
            return;
        }
        self.metrics.scaling(Direction::Down);
        // Who takes a fence over halfway saw it decided as a standby, and has not told it yet.
        if let Some(decision) = self.place.decision() {
            self.tell_fencing(decision.reasons.to_string());
        }
    }

    /// A call of a fence failed. What is not fenced must not be a secret of the log.
    pub(crate) fn not_fenced(&mut self, index: usize, why: &str) {
        let Some(target) = self.targets.get(index) else {
            return;
        };
        if self.told_failures.insert((index, why.to_owned())) {
            let target = &target.resource;
            let message = format!("scaling down {target} failed: {why}");
            self.tell_cluster(NoteKind::Warning, "ScalingFailed", message);
        }
    }

    /// A write to the target of this uid was acknowledged.
    pub(crate) fn written(&mut self, index: usize, uid: Option<&str>, call: &Call, at: Time) {
        let (Some((direction, replicas)), Some(target)) = (scaling(call), self.targets.get(index))
        else {
            return;
        };
        self.metrics.scaled(direction);
        // Measured once per trip: what is fenced again hours later was not too late.
        let mut margin = None;
        if let Some(trip) = self.trip.as_mut().filter(|_| direction == Direction::Down)
            && trip.measured.insert(index)
        {
            // The deadline is kube-controller-manager's, where there is one; the others may come later.
            let has_deadline = target.races() || !self.targets.iter().any(Target::races);
            margin = trip.margin(at).filter(|_| has_deadline);
            self.metrics.fenced_a_target(at, trip.since, margin);
        }
        let (cluster, resource) = (&*self.cluster, &target.resource);
        info!(cluster, target = %resource, replicas, margin, "scaled {}", word(direction));
        let (kind, reason) = match direction {
            Direction::Down => (NoteKind::Warning, "Fenced"),
            Direction::Up => (NoteKind::Normal, "Released"),
        };
        let message = match (direction, margin) {
            (Direction::Down, Some(left)) if left < 0.0 => format!(
                "scaled down to {replicas}: the nodes of {cluster} lost their API server; the first of \
                 them may have turned Unknown {:.1} s ago",
                -left
            ),
            (Direction::Down, Some(left)) => format!(
                "scaled down to {replicas}: the nodes of {cluster} lost their API server; {left:.1} s \
                 before the first of them would turn Unknown"
            ),
            (Direction::Down, None) => {
                format!("scaled down to {replicas}: the nodes of {cluster} lost their API server")
            }
            (Direction::Up, _) => {
                format!("scaled up to {replicas}: the nodes of {cluster} are back")
            }
        };
        let about = ObjectRef {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: self.cluster.to_string(),
            name: resource.name.clone(),
            // Without it `kubectl describe` does not show the Event.
            uid: uid.map(str::to_owned),
        };
        self.tell(about, kind, reason, message);
    }

    /// A flow ended, or was cut off.
    pub(crate) fn flow_ended(&mut self, report: FlowReport, at: Time) {
        let cluster = &*self.cluster;
        let direction = word(report.direction);
        let FlowReport { attempts, .. } = report;
        let failed = self.of_outcome(&report, |outcome| outcome == Some(TargetOutcome::Failed));
        let open = self.of_outcome(&report, |outcome| outcome.is_none());
        let unready = self.of_outcome(&report, |outcome| {
            matches!(outcome, Some(TargetOutcome::Scaled { unready: true, .. }))
        });
        let corrupt = self.of_outcome(&report, |outcome| {
            matches!(
                outcome,
                Some(TargetOutcome::Scaled {
                    corrupt_record: true,
                    ..
                })
            )
        });
        if !failed.is_empty() {
            warn!(
                cluster,
                attempts, "scaling {direction} failed for {failed}; it is tried again"
            );
            let message = format!("scaling {direction} failed for {failed}; it is tried again");
            self.tell_cluster(NoteKind::Warning, "ScalingFailed", message);
        } else if !open.is_empty() {
            info!(
                cluster,
                attempts, "scaling {direction} was cut off before {open}"
            );
        }
        if !unready.is_empty() {
            warn!(
                cluster,
                "the pods of {unready} have not followed within the patience of a flow"
            );
        }
        if !corrupt.is_empty() {
            warn!(
                cluster,
                "the record of {corrupt} is corrupt; one replica was restored"
            );
            let message = format!("the record of {corrupt} is corrupt; one replica was restored");
            self.tell_cluster(NoteKind::Warning, "CorruptRecord", message);
        }
        // Whatever kept it from writing, it no longer wants to; unless it is tried again.
        let has_failed = |index: usize| {
            let outcome = report.outcomes.get(index).copied().flatten();
            outcome == Some(TargetOutcome::Failed)
        };
        self.troubles.retain(|part, _| match part {
            Part::Write(index) => has_failed(*index),
            _ => true,
        });
        self.told_failures.clear();
        let troubles = self.troubles_in_words();
        self.place.update(|state| {
            state.troubles = troubles;
            state.last_flow = Some(LastFlow { at, report });
        });
    }

    fn troubles_in_words(&self) -> Vec<String> {
        let troubles = self.troubles.iter();
        let words = troubles.map(|(part, why)| format!("{}: {why}", Named(*part, &self.targets)));
        words.collect()
    }

    /// The targets whose outcome is such, for people.
    fn of_outcome(
        &self,
        report: &FlowReport,
        is_such: impl Fn(Option<TargetOutcome>) -> bool,
    ) -> String {
        let targets = self.targets.iter().zip(&report.outcomes);
        let such = targets.filter(|(_, outcome)| is_such(**outcome));
        let names: Vec<String> = such
            .map(|(target, _)| target.resource.to_string())
            .collect();
        names.join(", ")
    }

    fn tell_cluster(&self, kind: NoteKind, reason: &'static str, message: String) {
        let about = ObjectRef {
            api_version: "extensions.gardener.cloud/v1alpha1".to_owned(),
            kind: "Cluster".to_owned(),
            namespace: self
                .events
                .as_ref()
                .map_or_else(String::new, |log| log.namespace.to_string()),
            name: self.cluster.to_string(),
            uid: None,
        };
        self.tell(about, kind, reason, message);
    }

    fn tell(&self, about: ObjectRef, kind: NoteKind, reason: &'static str, message: String) {
        if let Some(log) = &self.events {
            log.events.publish(Note {
                about,
                kind,
                reason,
                message,
                action: reason,
            });
        }
    }
}

/// What would be done with a target, by the rule that a flow follows.
fn would(verdict: Verdict, target: &Target, sight: &Sight) -> Option<String> {
    let Sight::Present(present) = sight else {
        return None;
    };
    let direction = match verdict {
        Verdict::Fence => Direction::Down,
        Verdict::Release => Direction::Up,
        Verdict::Hold => return None,
    };
    let to = destination(direction, target, present)?;
    let (resource, from) = (&target.resource, present.replicas);
    Some(format!("{resource} from {from} to {to}"))
}

/// The direction and count of a scale call.
fn scaling(call: &Call) -> Option<(Direction, u32)> {
    match call {
        Call::ScaleDown(scale) => Some((Direction::Down, scale.replicas())),
        Call::ScaleUp(scale) => Some((Direction::Up, scale.replicas())),
        Call::Read | Call::WriteRecord(_) | Call::DropMarker(_) => None,
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}
