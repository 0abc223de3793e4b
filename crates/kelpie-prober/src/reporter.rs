//! Reports on a probe: in the log, the metrics, Events and on the state page.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, Direction, FlowReport, Observed, Purpose, Step, TargetOutcome, goal,
};
use kelpie_core::prober::{
    Decision, FenceState, ProbeResult, Rule, Setting, Target, TripPhase, Verdict,
};
use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};
use kelpie_runtime::LastErrors;
use tracing::{info, warn};

use crate::metrics::ClusterMetrics;
use crate::observer::RoundResult;
use crate::source::ClusterSource;
use crate::state_page::{LastFlow, StateHandle, TargetState};
use crate::subsystem::Subsystem;
use crate::warm_up::WarmUpHandle;

/// The recorder for Events, and the source of the objects that Events about a cluster refer to.
#[derive(Clone)]
pub(crate) struct ClusterEventSink {
    pub(crate) events: EventRecorder,
    /// The namespace of Events about clusters, whose objects have none.
    pub(crate) namespace: Arc<str>,
    pub(crate) source: Arc<dyn ClusterSource>,
}

/// Reports on one probe. Repeated states are reported once.
pub(crate) struct ProbeReporter {
    cluster: Arc<str>,
    targets: Arc<[Target]>,
    state: StateHandle,
    metrics: ClusterMetrics,
    /// `None` in a dry run, which writes nothing to the seed.
    events: Option<ClusterEventSink>,
    /// True once a probe over the external path succeeded.
    external_succeeded: bool,
    /// The verdict and the kind of rule that were logged last.
    last_logged: Option<(Verdict, mem::Discriminant<Rule>)>,
    /// The current problem of each subsystem that does not work.
    problems: LastErrors<Subsystem>,
    fenced_since: Option<Time>,
    /// The instant since which a fence is wanted and not made.
    unfenced_since: Option<Time>,
    trip: Option<TripTiming>,
    /// True if the Event `Fencing` was recorded for the current fence.
    fencing_reported: bool,
    reported_failures: ReportedFailures,
    /// The changes that a dry run would make, as logged last.
    dry_run_plan: String,
    /// `None` once the cluster was judged, or if that is of no interest.
    warm_up: Option<WarmUpHandle>,
}

/// The failures of the current fence that have an Event. Their number is limited: an error with an
/// ever new text must neither fill the memory nor the seed.
#[derive(Debug, Default)]
struct ReportedFailures {
    /// By target and error.
    texts: BTreeSet<(usize, String)>,
    /// The number of failures without an Event, because there were too many texts.
    further: u64,
}

impl ReportedFailures {
    /// The number of texts per target.
    const MOST: usize = 8;

    /// Returns whether the failure has to be reported.
    fn insert(&mut self, target: usize, error: &str) -> bool {
        let failure = (target, error.to_owned());
        if self.texts.contains(&failure) {
            return false;
        }
        let of_target = self.texts.iter().filter(|(index, _)| *index == target);
        if of_target.count() >= Self::MOST {
            self.further += 1;
            return false;
        }
        self.texts.insert(failure)
    }
}

/// The instants that the speed of a fence is measured against.
#[derive(Debug)]
struct TripTiming {
    since: Time,
    /// The first deadline of the partition. A trip that comes too late has missed it already.
    deadline: Option<Time>,
    /// The targets that were measured already, by index.
    measured: BTreeSet<usize>,
    /// The targets whose pods were seen to have stopped, by index.
    stopped: BTreeSet<usize>,
}

impl TripTiming {
    /// Returns the seconds left to the deadline; negative if it was missed.
    fn margin(&self, at: Time) -> Option<f64> {
        let deadline = self.deadline?;
        Some(deadline.since(at).as_secs_f64() - at.since(deadline).as_secs_f64())
    }
}

impl ProbeReporter {
    pub(crate) fn new(
        cluster: Arc<str>,
        targets: Arc<[Target]>,
        state: StateHandle,
        metrics: ClusterMetrics,
        events: Option<ClusterEventSink>,
    ) -> Self {
        Self {
            cluster,
            targets,
            state,
            metrics,
            events,
            external_succeeded: false,
            last_logged: None,
            problems: LastErrors::default(),
            fenced_since: None,
            unfenced_since: None,
            trip: None,
            fencing_reported: false,
            reported_failures: ReportedFailures::default(),
            dry_run_plan: String::new(),
            warm_up: None,
        }
    }

    /// Reports the first judgement to the warm-up of the replica.
    pub(crate) fn with_warm_up(mut self, warm_up: WarmUpHandle) -> Self {
        self.warm_up = Some(warm_up);
        self
    }

    /// Reports the requests and problems of a round.
    pub(crate) fn round(&mut self, planned: Time, result: RoundResult, decision: &Decision) {
        let seen = &result.observation;
        self.metrics.prober.round(planned, seen.start, seen.end);
        for stats in &result.stats {
            self.metrics.prober.requests(stats);
        }
        if seen.api_server == ProbeResult::Failure {
            self.metrics.internal_failures.inc();
        }
        if seen.external == Some(ProbeResult::Failure) {
            self.metrics.external_failures.inc();
        }
        self.external_succeeded |= seen.external == Some(ProbeResult::Success);
        let is_undecided = seen.external.is_some() && !self.external_succeeded;
        self.metrics.external_undecided.set(is_undecided.into());
        if decision.reasons.lease_probe_failed() {
            self.metrics.lease_failures.inc();
        }
        for (subsystem, problem) in result.subsystems {
            self.problem(subsystem, problem);
        }
    }

    /// Reports the decision of a round. `acts` is true if this replica carries it out. The log has
    /// a line for each change of the verdict or of the rule.
    pub(crate) fn decided(&mut self, decision: &Decision, fence: FenceState, acts: bool) {
        self.metrics.decided(decision);
        self.warm_up.take_if(|warm_up| warm_up.decided(decision));
        self.update_trip(decision);
        self.update_fenced_since(fence, decision.at);
        let fenced_since = self.fenced_since;
        self.state.update(|state| {
            state.decision = Some(*decision);
            state.fence = Some(fence);
            state.fenced_since = fenced_since;
        });
        let verdict = decision.verdict;
        self.fencing_reported &= acts && verdict == Verdict::Fence;
        let kind = (verdict, mem::discriminant(&decision.reasons.rule));
        let before = self.last_logged.replace(kind);
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
            (Verdict::Fence, _) => self.record_fencing(reasons),
            (Verdict::Release, FenceState::Partial | FenceState::Full) => {
                self.record_cluster_event(EventType::Normal, "Releasing", reasons);
            }
            _ => {}
        }
    }

    fn record_fencing(&mut self, reasons: String) {
        if !mem::replace(&mut self.fencing_reported, true) {
            self.record_cluster_event(EventType::Warning, "Fencing", reasons);
        }
    }

    fn update_trip(&mut self, decision: &Decision) {
        let since = match decision.reasons.rule.properties().trip {
            TripPhase::Since(since) => since,
            TripPhase::Open => self.trip.as_ref().map_or(decision.at, |trip| trip.since),
            TripPhase::Unchanged => return,
            TripPhase::None => {
                self.trip = None;
                self.metrics.pods_stopping.set(None);
                return;
            }
        };
        if self.trip.as_ref().is_none_or(|trip| trip.since != since) {
            self.trip = Some(TripTiming {
                since,
                deadline: decision.trip_deadline.or(decision.deadline),
                measured: BTreeSet::new(),
                stopped: BTreeSet::new(),
            });
        }
    }

    fn update_fenced_since(&mut self, fence: FenceState, at: Time) {
        self.fenced_since = match fence {
            FenceState::Partial | FenceState::Full => self.fenced_since.or(Some(at)),
            FenceState::None => None,
            FenceState::Unknown => self.fenced_since,
        };
        self.metrics.fenced.set(self.fenced_since);
    }

    /// Reports whether a fence is wanted at `now`, but not made.
    pub(crate) fn unfenced(&mut self, is_unfenced: bool, now: Time) {
        let since = self.unfenced_since.unwrap_or(now);
        self.unfenced_since = is_unfenced.then_some(since);
        self.metrics.unfenced.set(self.unfenced_since);
    }

    /// Sets the problem of a subsystem; `None` if it works. Only a change is logged.
    pub(crate) fn problem(&mut self, subsystem: Subsystem, problem: Option<String>) {
        let cluster = &*self.cluster;
        match problem {
            None => {
                let Some(was) = self.problems.recover(&subsystem) else {
                    return;
                };
                let name = subsystem.name(&self.targets);
                info!(cluster, was, "{name}: problem resolved");
            }
            Some(problem) => {
                if !self.problems.fail(subsystem, &problem) {
                    return;
                }
                warn!(cluster, "{}: {problem}", subsystem.name(&self.targets));
            }
        }
        self.show_problems();
    }

    /// Shows the targets as last read or written on the state page.
    pub(crate) fn targets_observed<'t>(
        &self,
        observed: impl Iterator<Item = (&'t Target, Option<&'t Observed>)>,
    ) {
        let targets = observed.map(|(target, observed)| TargetState {
            resource: target.resource.clone(),
            observed: observed.cloned(),
        });
        self.state.update(|state| state.targets = targets.collect());
    }

    /// Logs the changes that a dry run would make, whenever they change.
    pub(crate) fn log_dry_run<'t>(
        &mut self,
        verdict: Verdict,
        observed: impl Iterator<Item = (&'t Target, Option<&'t Observed>)>,
    ) {
        let changes: Vec<String> = observed
            .filter_map(|(target, observed)| planned_change(verdict, target, observed?))
            .collect();
        let plan = changes.join(", ");
        if plan != self.dry_run_plan {
            let cluster = &*self.cluster;
            match plan.as_str() {
                "" => info!(cluster, "dry run: would scale nothing"),
                plan => warn!(cluster, "dry run: would scale {plan}"),
            }
            self.dry_run_plan = plan;
        }
    }

    /// Reports a target that is fenced before the lower levels are done, because of the deadline.
    pub(crate) fn started_early(&self, index: usize) {
        let (cluster, target) = (&*self.cluster, &self.targets[index].resource);
        warn!(cluster, %target, "deadline close: fencing without waiting for lower levels");
        let message =
            format!("Fencing {target} without waiting for lower levels: the deadline is close");
        self.record_cluster_event(EventType::Warning, "DeadlineBeatsOrder", message);
    }

    /// Reports a call that is about to be sent.
    pub(crate) fn calling(&mut self, step: &Step) {
        if step.purpose != Purpose::Attempt {
            return;
        }
        if let Call::Restore(_) = step.call {
            self.metrics.scaling(Direction::Up);
            return;
        }
        self.metrics.scaling(Direction::Down);
        // A replica that takes over an unfinished fence was a standby when the verdict changed, so
        // it has not recorded the Event yet.
        if let Some(decision) = self.state.decision() {
            self.record_fencing(decision.reasons.to_string());
        }
    }

    /// Reports a failed call of a fence by an Event, once for each error: an unfenced target must
    /// be visible outside of the log too.
    pub(crate) fn not_fenced(&mut self, index: usize, error: &str) {
        if self.reported_failures.insert(index, error) {
            let target = &self.targets[index].resource;
            let message = format!("Failed to scale down {target}: {error}");
            self.record_cluster_event(EventType::Warning, "ScalingFailed", message);
        }
    }

    /// Counts a read of a flow that failed as an attempt.
    pub(crate) fn read_failed(&self, direction: Direction) {
        self.metrics.scaling(direction);
    }

    /// Reports that the pods of a fenced target have stopped. Each target is reported once per
    /// trip.
    pub(crate) fn pods_stopped(&mut self, index: usize, at: Time) {
        self.metrics.pods_stopping.set(None);
        let Some(trip) = &mut self.trip else { return };
        if !trip.stopped.insert(index) {
            return;
        }
        let (cluster, target) = (&*self.cluster, &self.targets[index].resource);
        match trip.margin(at) {
            Some(margin) if margin < 0.0 => {
                let late = -margin;
                self.metrics.prober.pods_stopped_late.inc();
                warn!(cluster, %target, margin, "pods stopped {late:.1} s after the deadline");
            }
            Some(margin) => {
                info!(cluster, %target, margin, "pods stopped {margin:.1} s before the deadline");
            }
            None => {}
        }
    }

    /// Reports a setting that was applied to the target with this uid.
    pub(crate) fn applied(
        &mut self,
        index: usize,
        uid: Option<&str>,
        (direction, setting): (Direction, Setting),
        at: Time,
    ) {
        let target = &self.targets[index];
        self.metrics.scaled(direction);
        if target.is_deadline_target {
            let is_stopping = direction == Direction::Down && self.trip.is_some();
            self.metrics.pods_stopping.set(is_stopping.then_some(at));
        }
        // Each target is measured once per trip: one that is fenced again hours later is not late.
        let mut margin = None;
        if let Some(trip) = self.trip.as_mut().filter(|_| direction == Direction::Down)
            && trip.measured.insert(index)
        {
            // The deadline applies to the deadline target, if there is one. The others may be
            // later.
            let has_deadline = target.is_deadline_target
                || !self.targets.iter().any(|target| target.is_deadline_target);
            margin = trip.margin(at).filter(|_| has_deadline);
            self.metrics.target_fenced(at, trip.since, margin);
        }
        let (cluster, resource) = (&*self.cluster, &target.resource);
        let applied = target.actuator.describe(direction, setting);
        let (kind, reason, cause) = match direction {
            Direction::Down => (EventType::Warning, "Fenced", "lost their API server"),
            Direction::Up => (EventType::Normal, "Released", "are back"),
        };
        let timing = match margin {
            Some(margin) if margin < 0.0 => {
                let late = -margin;
                let text = format!("{applied}, {late:.1} s after the deadline");
                warn!(cluster, target = %resource, margin, "{text}");
                format!(". Too late: the first node may have turned Unknown {late:.1} s earlier")
            }
            Some(margin) => {
                let text = format!("{applied}, {margin:.1} s before the deadline");
                info!(cluster, target = %resource, margin, "{text}");
                format!(". In time: {margin:.1} s before the first node would turn Unknown")
            }
            None => {
                info!(cluster, target = %resource, "{applied}");
                String::new()
            }
        };
        let applied = capitalized(&applied);
        let message = format!("{applied}: the nodes of {cluster} {cause}{timing}");
        let about = ObjectRef {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: self.cluster.to_string(),
            name: resource.name.clone(),
            // Without it `kubectl describe` does not show the Event.
            uid: uid.map(str::to_owned),
        };
        self.record(about, kind, reason, message);
    }

    /// Reports the end of a flow, which may have been cancelled.
    pub(crate) fn flow_ended(&mut self, report: FlowReport, at: Time) {
        let cluster = &*self.cluster;
        let (direction, attempts) = (report.direction, report.attempts);
        let has_failed = |outcome| outcome == Some(TargetOutcome::Failed);
        let failed = self.targets_with(&report, has_failed);
        let unfinished = self.targets_with(&report, |outcome| outcome.is_none());
        let unready = self.targets_with(
            &report,
            |outcome| matches!(outcome, Some(TargetOutcome::Applied { unready, .. }) if unready),
        );
        let corrupt = self.targets_with(&report, |outcome| {
            matches!(outcome, Some(TargetOutcome::Applied { corrupt_record, .. }) if corrupt_record)
        });
        if !failed.is_empty() {
            let problem = format!("failed to scale {direction} {failed}; retrying");
            let unreported = self.reported_failures.further;
            warn!(cluster, attempts, unreported, "{problem}");
            self.record_cluster_event(EventType::Warning, "ScalingFailed", capitalized(&problem));
        } else if !unfinished.is_empty() {
            let what = format!("scaling {direction} cancelled before it was done for {unfinished}");
            info!(cluster, attempts, "{what}");
        }
        if !unready.is_empty() {
            let what = match direction {
                Direction::Down => format!("the pods of {unready} to stop"),
                Direction::Up => format!("a ready pod of {unready}"),
            };
            warn!(cluster, "timed out waiting for {what}");
        }
        if !corrupt.is_empty() {
            let problem = format!(
                "the recorded replica count of {corrupt} is corrupt; restored 1 replica, scale it \
                 up if needed"
            );
            warn!(cluster, "{problem}");
            self.record_cluster_event(EventType::Warning, "CorruptRecord", capitalized(&problem));
        }
        // The problems of writes end with the flow that wanted them, unless it is retried.
        self.problems.retain(|subsystem| match subsystem {
            Subsystem::Write(index) => has_failed(report.outcomes.get(*index).copied().flatten()),
            _ => true,
        });
        self.reported_failures = ReportedFailures::default();
        self.show_problems();
        let last_flow = Some(LastFlow { at, report });
        self.state.update(|state| state.last_flow = last_flow);
    }

    fn show_problems(&self) {
        let problems = self.problems.iter();
        let texts = problems.map(|(subsystem, problem)| {
            let name = subsystem.name(&self.targets);
            format!("{name}: {problem}")
        });
        self.state.update(|state| state.problems = texts.collect());
    }

    /// Lists the targets whose outcome matches, separated by commas.
    fn targets_with(
        &self,
        report: &FlowReport,
        matches: impl Fn(Option<TargetOutcome>) -> bool,
    ) -> String {
        let targets = self.targets.iter().zip(&report.outcomes);
        let matching = targets.filter(|(_, outcome)| matches(**outcome));
        let names: Vec<String> = matching
            .map(|(target, _)| target.resource.to_string())
            .collect();
        names.join(", ")
    }

    fn record_cluster_event(&self, kind: EventType, reason: &'static str, message: String) {
        if let Some(sink) = &self.events {
            let mut about = sink.source.cluster_object(&self.cluster);
            about.namespace = sink.namespace.to_string();
            self.record(about, kind, reason, message);
        }
    }

    fn record(&self, about: ObjectRef, kind: EventType, reason: &'static str, message: String) {
        if let Some(sink) = &self.events {
            sink.events.publish(NewEvent {
                about,
                kind,
                reason,
                message,
                action: reason,
            });
        }
    }
}

/// Describes the change that a flow would make to a target; `None` if it would make none.
fn planned_change(verdict: Verdict, target: &Target, observed: &Observed) -> Option<String> {
    let Observed::Present(present) = observed else {
        return None;
    };
    let direction = match verdict {
        Verdict::Fence => Direction::Down,
        Verdict::Release => Direction::Up,
        Verdict::Hold => return None,
    };
    let to = goal(direction, target, present)?;
    let (resource, from) = (&target.resource, present.setting);
    Some(format!("{resource} from {from} to {to}"))
}

/// Starts a text with a capital, as messages of Events do.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    let first = first.into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_core::prober::ResourceRef;
    use kelpie_kube::{AnchoredClock, SystemClock};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::ProberMetrics;
    use crate::state_page::StatePage;

    fn reporter() -> ProbeReporter {
        let target = Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kube-controller-manager".into(),
        });
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let cluster: Arc<str> = "a".into();
        let metrics = ProberMetrics::new(&mut Registry::default(), clock).of_cluster(&cluster);
        let state = StatePage::default().place(&cluster);
        ProbeReporter::new(cluster, [target].into(), state, metrics, None)
    }

    fn trip(since: Time) -> TripTiming {
        TripTiming {
            since,
            deadline: Some(since.after(Duration::from_secs(4))),
            measured: BTreeSet::new(),
            stopped: BTreeSet::new(),
        }
    }

    #[test]
    fn pods_that_stop_late_are_counted_once() {
        let mut reporter = reporter();
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        reporter.trip = Some(trip(at(10)));
        reporter.pods_stopped(0, at(13));
        let late = reporter.metrics.prober.pods_stopped_late.clone();
        assert_eq!(late.get(), 0);
        reporter.trip = Some(trip(at(100)));
        reporter.pods_stopped(0, at(106));
        reporter.pods_stopped(0, at(107));
        assert_eq!(late.get(), 1);
    }

    #[test]
    fn unfenced_time_starts_with_the_first_report() {
        let mut reporter = reporter();
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        reporter.unfenced(true, at(10));
        reporter.unfenced(true, at(15));
        assert_eq!(reporter.unfenced_since, Some(at(10)));
        reporter.unfenced(false, at(20));
        assert_eq!(reporter.unfenced_since, None);
        reporter.unfenced(true, at(30));
        assert_eq!(reporter.unfenced_since, Some(at(30)));
    }

    #[test]
    fn ever_new_failures_are_bounded() {
        let mut failures = ReportedFailures::default();
        let reported = (0..1_000).filter(|number| failures.insert(0, &format!("error {number}")));
        assert_eq!(reported.count(), 8);
        assert_eq!((failures.texts.len(), failures.further), (8, 992));
        assert!(!failures.insert(0, "error 7"), "known");
        assert!(failures.insert(1, "error 7"), "another target");
    }
}
