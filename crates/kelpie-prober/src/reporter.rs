//! Reports on a probe: in the log, the metrics, Events and on the state page.

mod cluster_events;
mod fence_calls;
mod guard;
mod reported_failures;
mod story;
mod trip_timing;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::Observed;
use kelpie_core::prober::overview::TransitionKind;
use kelpie_core::prober::{
    Budget, Decision, FenceState, ProbeResult, Rule, Target, TripPhase, Verdict,
};
use kelpie_kube::events::EventType;
use kelpie_runtime::LastErrors;
use tracing::{info, warn};

use crate::metrics::ClusterMetrics;
use crate::observer::RoundResult;
use crate::source::ClusterIdentity;
use crate::state_page::{StateHandle, TargetState};
use crate::subsystem::Subsystem;
use crate::warm_up::WarmUpHandle;
pub(crate) use cluster_events::ClusterEventSink;
use guard::GuardReporter;
use reported_failures::ReportedFailures;
use story::StoryTerms;
use trip_timing::TripTiming;

/// The budget of lines that a cluster can cause at will, with ever new errors or by changing back
/// and forth. Lines about a fence and about the seed are always logged.
const LOG_LINES: Budget = Budget::new(30, Duration::from_mins(1));

/// Reports on one probe. Repeated states are reported once.
pub(crate) struct ProbeReporter {
    cluster: Arc<ClusterIdentity>,
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
    log_lines: Budget,
    fenced_since: Option<Time>,
    /// The instant since which a fence is wanted and not made.
    unfenced_since: Option<Time>,
    trip: Option<TripTiming>,
    /// True if the Event `Fencing` was recorded for the current fence.
    fencing_reported: bool,
    reported_failures: ReportedFailures,
    guard: GuardReporter,
    /// The changes that a dry run would make, as logged last.
    dry_run_plan: String,
    story: StoryTerms,
    /// `None` once the cluster was judged, or if that is of no interest.
    warm_up: Option<WarmUpHandle>,
}

impl ProbeReporter {
    pub(crate) fn new(
        cluster: Arc<ClusterIdentity>,
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
            log_lines: LOG_LINES,
            fenced_since: None,
            unfenced_since: None,
            trip: None,
            fencing_reported: false,
            reported_failures: ReportedFailures::default(),
            guard: GuardReporter::default(),
            dry_run_plan: String::new(),
            story: StoryTerms::default(),
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
        self.tell_verdict(decision, fence, before.map(|(before, _)| before));
        let cluster = &*self.cluster.id;
        let deadline = decision.deadline.map(tracing::field::display);
        let is_fence_over = before.is_some_and(|(before, _)| before == Verdict::Fence);
        if verdict == Verdict::Fence {
            warn!(cluster, %verdict, acts, deadline, "{decision}");
        } else if is_fence_over || self.may_log() {
            let cluster = &*self.cluster.id;
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
            let deadline = decision.trip_deadline.or(decision.deadline);
            self.trip = Some(TripTiming::new(since, deadline));
            self.state.tripped(since, deadline, decision.at);
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

    /// Reports the state of the fence at `now`, and whether one is wanted that is not made.
    pub(crate) fn fence_state(&mut self, fence: FenceState, is_unfenced: bool, now: Time) {
        let since = self.unfenced_since.unwrap_or(now);
        self.unfenced_since = is_unfenced.then_some(since);
        self.metrics.unfenced.set(self.unfenced_since);
        self.update_fenced_since(fence, now);
        self.judge(fence, now);
    }

    /// Sets the problem of a subsystem; `None` if it works. Only a change is logged.
    pub(crate) fn problem(&mut self, subsystem: Subsystem, problem: Option<String>) {
        match problem {
            None => {
                let Some(was) = self.problems.recover(&subsystem) else {
                    return;
                };
                let name = subsystem.name(&self.targets);
                self.tell_trouble(TransitionKind::Recovery, &format!("{name} works again"));
                if subsystem.is_seed() || self.may_log() {
                    let cluster = &*self.cluster.id;
                    info!(cluster, was, "{name}: problem resolved");
                }
            }
            Some(problem) => {
                if !self.problems.fail(subsystem, &problem) {
                    return;
                }
                let name = subsystem.name(&self.targets);
                self.tell_trouble(TransitionKind::Trouble, &format!("{name}: {problem}"));
                if subsystem.is_seed() || self.may_log() {
                    let cluster = &*self.cluster.id;
                    warn!(cluster, "{name}: {problem}");
                }
            }
        }
        self.show_problems();
    }

    /// Takes a line from the budget. Without one, counts it as suppressed.
    fn may_log(&mut self) -> bool {
        let may_log = self.log_lines.take(self.metrics.now());
        if !may_log {
            self.metrics.suppressed_log_lines.inc();
        }
        may_log
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

    fn show_problems(&self) {
        let problems = self.problems.iter();
        let texts = problems.map(|(subsystem, problem)| {
            let name = subsystem.name(&self.targets);
            format!("{name}: {problem}")
        });
        self.state.update(|state| state.problems = texts.collect());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_core::prober::ResourceRef;
    use kelpie_kube::events::ObjectRef;
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
        let cluster = ClusterIdentity {
            id: "a".into(),
            namespace: "a".into(),
            object: ObjectRef::default(),
        };
        let metrics = ProberMetrics::new(&mut Registry::default(), clock).of_cluster(&cluster.id);
        let state = StatePage::default().place(&cluster.id);
        let cluster = Arc::new(cluster);
        ProbeReporter::new(cluster, [target].into(), state, metrics, None)
    }

    fn trip(since: Time) -> TripTiming {
        TripTiming::new(since, Some(since.after(Duration::from_secs(4))))
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
    fn ever_new_errors_use_up_the_log_budget() {
        let mut reporter = reporter();
        for n in 0..1_000 {
            reporter.problem(Subsystem::Leases, Some(format!("error {n}")));
        }
        let suppressed = reporter.metrics.suppressed_log_lines.clone();
        assert_eq!(suppressed.get(), 970);
        // The state page has the current one, and the seed is not the tenant's.
        let current = reporter.problems.iter().next();
        assert_eq!(current.unwrap().1, "error 999");
        reporter.problem(Subsystem::Write(0), Some("denied".to_owned()));
        assert_eq!(suppressed.get(), 970);
    }

    #[test]
    fn unfenced_time_starts_with_the_first_report() {
        let mut reporter = reporter();
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        let mut unfenced = |is_unfenced, at| {
            reporter.fence_state(FenceState::None, is_unfenced, at);
            reporter.unfenced_since
        };
        unfenced(true, at(10));
        assert_eq!(unfenced(true, at(15)), Some(at(10)));
        assert_eq!(unfenced(false, at(20)), None);
        unfenced(true, at(30));
        assert_eq!(reporter.unfenced_since, Some(at(30)));
    }
}
