//! Reports on the calls of a fence or a release.

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, Direction, FlowReport, Observed, Purpose, Step, TargetOutcome, goal,
};
use kelpie_core::prober::overview::TransitionKind;
use kelpie_core::prober::{Setting, Target, Verdict};
use kelpie_kube::events::{EventType, ObjectRef};
use tracing::{info, warn};

use super::ProbeReporter;
use super::cluster_events::capitalized;
use super::reported_failures::ReportedFailures;
use crate::state_page::LastFlow;
use crate::subsystem::Subsystem;

impl ProbeReporter {
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
            let cluster = &*self.cluster.id;
            match plan.as_str() {
                "" => info!(cluster, "dry run: would change nothing"),
                plan => warn!(cluster, "dry run: would {plan}"),
            }
            self.dry_run_plan = plan;
        }
    }

    /// Reports a target that is fenced before the lower levels are done, because of the deadline.
    pub(crate) fn started_early(&self, index: usize) {
        let (cluster, target) = (&*self.cluster.id, &self.targets[index].resource);
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
        self.tell_call(step);
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
            self.tell_trouble(TransitionKind::Failure, &message);
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
        let (cluster, target) = (&*self.cluster.id, &self.targets[index].resource);
        match trip.margin(at) {
            Some(margin) if margin < 0.0 => {
                let late = -margin;
                self.metrics.prober.pods_stopped_late.inc();
                let text = format!("{target}: pods stopped {late:.1} s after the deadline");
                self.tell(at, TransitionKind::Failure, &text);
                warn!(cluster, %target, margin, "pods stopped {late:.1} s after the deadline");
            }
            Some(margin) => {
                let text = format!("{target}: pods stopped {margin:.1} s before the deadline");
                self.tell(at, TransitionKind::Fence, &text);
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
        let (cluster, resource) = (&*self.cluster.id, &target.resource);
        let applied = target.actuator.describe(direction, setting);
        let (kind, reason, cause) = match direction {
            Direction::Down => (EventType::Warning, "Fenced", "lost their API server"),
            Direction::Up => (EventType::Normal, "Released", "are back"),
        };
        let told = match direction {
            Direction::Down => TransitionKind::Fence,
            Direction::Up => TransitionKind::Restore,
        };
        if direction == Direction::Down && target.is_deadline_target {
            self.state.tell(|story| {
                if let Some(fence) = &mut story.last_fence {
                    fence.fenced(at, margin);
                }
            });
        }
        let timing = match margin {
            Some(margin) if margin < 0.0 => {
                let late = -margin;
                let text = format!("{applied}, {late:.1} s after the deadline");
                self.tell(at, TransitionKind::Failure, &format!("{resource} {text}"));
                warn!(cluster, target = %resource, margin, "{text}");
                format!(". Too late: the first node may have turned Unknown {late:.1} s earlier")
            }
            Some(margin) => {
                let text = format!("{applied}, {margin:.1} s before the deadline");
                self.tell(at, told, &format!("{resource} {text}"));
                info!(cluster, target = %resource, margin, "{text}");
                format!(". In time: {margin:.1} s before the first node would turn Unknown")
            }
            None => {
                self.tell(at, told, &format!("{resource} {applied}"));
                info!(cluster, target = %resource, "{applied}");
                String::new()
            }
        };
        let applied = capitalized(&applied);
        let message = format!("{applied}: the nodes of {cluster} {cause}{timing}");
        if target.actuator.is_by_cluster() {
            // There are several objects, and the Event is about all of them.
            return self.record_cluster_event(kind, reason, message);
        }
        let about = ObjectRef {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: self.cluster.namespace.to_string(),
            name: resource.name.clone(),
            // Without it `kubectl describe` does not show the Event.
            uid: uid.map(str::to_owned),
        };
        self.record(about, kind, reason, message);
    }

    /// Reports the end of a flow, which may have been cancelled.
    pub(crate) fn flow_ended(&mut self, report: FlowReport, at: Time) {
        let cluster = &*self.cluster.id;
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
    Some(target.actuator.describe_plan(resource, from, to))
}
