//! The fence executor of a probe: it performs the calls that the fencing state machine asks for.

mod measurements;
mod seed_access;
mod watched_targets;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, Direction, FenceEvent, Fencing, FlowReport, Observed, Reply, Step, TargetId,
};
use kelpie_core::prober::{Decision, Delays, FenceState, Target, Verdict};
use kelpie_kube::AnchoredClock;
use kelpie_kube::actuator::{ActuatorError, TargetScope};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::observer::RoundContext;
use crate::recording::CallRecorder;
use crate::reporter::ProbeReporter;
use crate::source::ClusterIdentity;
use crate::subsystem::Subsystem;
use measurements::PressedEntry;
pub(crate) use seed_access::SeedAccess;
use seed_access::{CallContext, StepError, WriteRight};
use watched_targets::TargetUpdate;

/// Reported for a target that another client keeps writing to.
const CONTESTED: &str = "another client keeps changing it; retrying";
/// Reported for a record on the leader Lease that another replica has put there.
const SILENT_WEBHOOK: &str = "an admission webhook did not answer";
/// Reported for a write that takes longer than other requests to the seed.
const UNANSWERED: &str = "the patch is not answered; an admission webhook may hang";
/// Calls that are under way when a probe ends get this long to finish.
const DRAIN: Duration = Duration::from_secs(2);
/// A new leader or a standby acts on a decision that is younger than this part of the grace period.
const FRESH_FRACTION: f64 = 0.5;

/// The targets of a cluster and the calls under way.
pub(crate) struct FenceExecutor {
    /// The place of the targets.
    scope: TargetScope,
    clock: AnchoredClock,
    targets: Arc<[Target]>,
    fencing: Fencing,
    access: SeedAccess,
    /// The states of the targets that watches show.
    updates: UnboundedReceiver<TargetUpdate>,
    /// This replica leads and may write.
    acts: bool,
    /// This replica became leader while a fence stands or is wanted: a round is due at once.
    is_pressed: bool,
    /// An operator has paused fences.
    is_paused: bool,
    /// The deadline of the flow, which decides its place in the queue.
    deadline: Time,
    /// The entry of this cluster among those that have to be fenced soon.
    pressed: PressedEntry,
    /// The grace period of the cluster.
    grace: Duration,
    /// Cancelled when the verdict changes: calls that were not sent by then are dropped.
    cancel: CancellationToken,
    verdict: Option<Verdict>,
    decision: Option<Decision>,
    /// For each target, why its record cannot be put on it.
    webhook_errors: Vec<Option<String>>,
    /// Calls of a flow.
    under_way: FuturesUnordered<BoxFuture<'static, CompletedStep>>,
    /// A write that its flow no longer waits for.
    unanswered: Option<AbortOnDropHandle<()>>,
    /// Refreshes. The end of a probe does not wait for them.
    refreshes: FuturesUnordered<BoxFuture<'static, CompletedStep>>,
    pub(crate) reporter: ProbeReporter,
    /// `None` if nothing is recorded.
    calls: Option<CallRecorder>,
}

/// A step and its result.
struct CompletedStep {
    step: Step,
    result: Result<Reply, StepError>,
}

impl FenceExecutor {
    pub(crate) fn new(
        cluster: &ClusterIdentity,
        clock: AnchoredClock,
        targets: Arc<[Target]>,
        access: SeedAccess,
        reporter: ProbeReporter,
    ) -> Self {
        let scope = cluster.target_scope();
        let mut executor = Self {
            updates: access.watched.subscribe(&scope, &targets),
            pressed: PressedEntry::new(access.measurements.clone(), Arc::clone(&cluster.id)),
            grace: access.grace,
            scope,
            clock,
            fencing: Fencing::new(Arc::clone(&targets)),
            webhook_errors: vec![None; targets.len()],
            targets,
            access,
            acts: false,
            is_pressed: false,
            is_paused: false,
            deadline: Time::MAX,
            cancel: CancellationToken::new(),
            verdict: None,
            decision: None,
            under_way: FuturesUnordered::new(),
            unanswered: None,
            refreshes: FuturesUnordered::new(),
            reporter,
            calls: None,
        };
        executor.acts = executor.leads();
        executor
    }

    /// Records the calls of flows.
    #[must_use]
    pub(crate) fn recording_calls(mut self, calls: Option<CallRecorder>) -> Self {
        self.calls = calls;
        self
    }

    /// Returns the state of the fence at the start of a round.
    pub(crate) fn round_context(&self) -> RoundContext {
        RoundContext {
            fence: self.fencing.fence(),
            stands_by: self.access.dry_run || !self.fencing.is_open(),
            released: self.fencing.released_at(),
            delays: self.seed_delays(self.clock.now()),
        }
    }

    /// Sets the grace period, by which the age of a decision is judged.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
        self.reporter.set_terms(self.access.dry_run, grace);
    }

    /// Sets the deadline of a cluster that has to be fenced soon; `None` if it has not. Others with
    /// later deadlines count it among those that go first.
    pub(crate) fn set_pressed(&mut self, deadline: Option<Time>) {
        let is_open = !self.access.dry_run && self.fencing.is_deadline_open();
        self.pressed.set(deadline.filter(|_| is_open));
    }

    /// Returns the measured delays of a fence: of the write, of the queue before it and of the pods
    /// after it. The other fields are zero.
    fn seed_delays(&self, now: Time) -> Delays {
        let measurements = &self.access.measurements;
        Delays {
            write: measurements.latency(now),
            queue: measurements.queue_delay(self.deadline, self.access.queue.limit()),
            pod_stop: measurements.pod_stop(now),
            ..Delays::default()
        }
    }

    /// Returns whether a look at the leases is due at once: another client has undone the fence, or
    /// this replica has become leader while a fence stands or is wanted.
    pub(crate) fn wants_look(&self) -> bool {
        self.is_pressed || self.fencing.wants_look()
    }

    /// Applies a decision. A standby carries it out only if the leader does not.
    pub(crate) fn apply(&mut self, decision: &Decision) {
        // Renewals are sent silently: a replica that saw an expired one must find out that it
        // leads.
        self.update_leadership();
        self.is_pressed = false;
        self.decision = Some(*decision);
        if self.verdict.replace(decision.verdict) != Some(decision.verdict) {
            self.cancel_waiting();
        }
        self.reporter
            .decided(decision, self.fencing.fence(), self.acts);
        self.deadline = decision.deadline.unwrap_or(Time::MAX);
        if self.access.dry_run {
            self.reporter
                .log_dry_run(decision.verdict, self.fencing.observed());
        } else {
            self.carry_out(decision);
        }
        self.report_unfenced();
    }

    /// Follows the pause switch. Calls of a fence that wait in the queue are dropped.
    fn follow_pause(&mut self) {
        let is_paused = self.access.is_paused();
        if is_paused && !self.is_paused && self.verdict == Some(Verdict::Fence) {
            self.cancel_waiting();
        }
        self.is_paused = is_paused;
        self.fencing.set_paused(is_paused);
    }

    fn carry_out(&mut self, decision: &Decision) {
        self.follow_pause();
        let now = self.clock.now();
        let report = if self.acts {
            self.fencing.apply(decision)
        } else {
            self.fencing.assist(decision, now)
        };
        self.end_flow(report, now);
    }

    fn end_flow(&mut self, report: Option<FlowReport>, now: Time) {
        if let Some(report) = report {
            self.reporter.flow_ended(report, now);
        }
    }

    /// Returns the instant until which a decision counts without a newer one.
    fn fresh_until(&self, decision: &Decision) -> Instant {
        let until = decision.at.after(self.grace.mul_f64(FRESH_FRACTION));
        self.clock.instant(until)
    }

    /// Performs calls until `other` is done.
    pub(crate) async fn work_while<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = pin!(other);
        loop {
            if let Some(output) = self.turn(other.as_mut()).await {
                return output;
            }
        }
    }

    /// Performs calls until `other` is done, or until a look at the leases is wanted.
    pub(crate) async fn work_until_look_wanted<F: Future>(
        &mut self,
        other: F,
    ) -> Option<F::Output> {
        let mut other = pin!(other);
        let was_wanted = self.wants_look();
        loop {
            if let Some(output) = self.turn(other.as_mut()).await {
                return Some(output);
            }
            if !was_wanted && self.wants_look() {
                return None;
            }
        }
    }

    /// Returns whether calls of a fence are under way that a round would not change.
    pub(crate) fn is_crowded(&self) -> bool {
        let is_fencing = self.verdict == Some(Verdict::Fence);
        is_fencing && !self.wants_look() && !self.under_way.is_empty()
    }

    /// Starts due calls and waits for the first event.
    async fn turn<F: Future + Unpin>(&mut self, other: F) -> Option<F::Output> {
        self.begin_due_steps();
        let wake = self.fencing.next_wake(self.clock.now());
        let wake = self.clock.instant(wake.unwrap_or(Time::MAX));
        tokio::select! {
            biased;
            output = other => return Some(output),
            Some(done) = self.under_way.next() => self.finish(done),
            Some(done) = self.refreshes.next() => self.finish(done),
            Some(update) = self.updates.recv() => self.take_in(update),
            () = self.access.leadership.changed() => self.update_leadership(),
            () = sleep_until(wake) => {}
        }
        None
    }

    fn leads(&mut self) -> bool {
        let leadership = self.access.leadership.borrow_and_update();
        !self.access.dry_run && leadership.may_act(Instant::now())
    }

    fn update_leadership(&mut self) {
        let leads = self.leads();
        if self.acts != leads {
            self.reporter.role_changed(leads, self.clock.now());
        }
        if leads && !self.acts {
            let is_fenced = self.fencing.fence() != FenceState::None;
            self.is_pressed = is_fenced || self.verdict == Some(Verdict::Fence);
            self.cancel();
            // A predecessor may have fenced or released since.
            self.fencing.invalidate();
            self.acts = true;
            if let Some(decision) = self.decision
                && Instant::now() < self.fresh_until(&decision)
            {
                self.carry_out(&decision);
            }
        } else if self.acts && !leads {
            self.cancel();
        }
        self.acts = leads;
    }

    fn cancel(&mut self) {
        self.cancel_waiting();
        let report = self.fencing.cancel();
        self.end_flow(report, self.clock.now());
    }

    /// Drops calls that still wait in the queue.
    fn cancel_waiting(&mut self) {
        std::mem::take(&mut self.cancel).cancel();
    }

    fn begin_due_steps(&mut self) {
        self.follow_pause();
        let now = self.clock.now();
        let due = self.fencing.poll(now);
        self.report_events(now);
        self.end_flow(due.report, now);
        for target in due.started_early {
            self.reporter.started_early(target.0);
        }
        for step in due.steps {
            self.reporter.calling(&step);
            let target = self.targets[step.target.0].clone();
            let (access, scope) = (self.access.clone(), self.scope.clone());
            let context = self.call_context();
            let calls = if step.can_wait() {
                &self.refreshes
            } else {
                &self.under_way
            };
            calls.push(Box::pin(async move {
                let result = access.perform(&scope, &target, &step, &context).await;
                CompletedStep { step, result }
            }));
        }
    }

    fn call_context(&self) -> CallContext {
        let until = self.decision.map(|decision| self.fresh_until(&decision));
        CallContext {
            deadline: self.deadline,
            right: if self.acts {
                WriteRight::Leader
            } else {
                let until = until.unwrap_or_else(Instant::now);
                WriteRight::Standby { until }
            },
            cancel: self.cancel.clone(),
            can_leave: self
                .unanswered
                .as_ref()
                .is_none_or(AbortOnDropHandle::is_finished),
        }
    }

    fn direction(&self) -> Direction {
        match self.verdict {
            Some(Verdict::Fence) => Direction::Down,
            _ => Direction::Up,
        }
    }

    /// Takes in what a watch has shown.
    fn take_in(&mut self, update: TargetUpdate) {
        let now = self.clock.now();
        match update {
            TargetUpdate::Watched(target, is_watched) => {
                self.fencing.set_watched(target, is_watched, now);
            }
            TargetUpdate::Observed(target, observed) => {
                let report = self.fencing.observe(target, &observed, now);
                self.report_events(now);
                self.end_flow(report, now);
                self.report_unfenced();
                self.reporter.targets_observed(self.fencing.observed());
            }
            TargetUpdate::Kept(target, kept) => {
                let kept = kept.map(|kept| *kept);
                self.fencing.set_kept(target, kept, now);
                self.report_events(now);
                self.reporter.targets_observed(self.fencing.observed());
            }
        }
        self.report_kept();
    }

    /// Reports fenced targets whose record waits on the leader Lease.
    fn report_kept(&mut self) {
        for (index, error) in self.webhook_errors.iter_mut().enumerate() {
            let is_kept = self.fencing.is_kept(TargetId(index));
            let problem = is_kept.then(|| {
                let lease = self.access.record_lease();
                let why = error.as_deref().unwrap_or(SILENT_WEBHOOK);
                format!("its record waits on Lease {lease}: {why}")
            });
            if !is_kept {
                *error = None;
            }
            self.reporter.problem(Subsystem::Record(index), problem);
        }
    }

    /// Reports the changes that flows have made.
    fn report_events(&mut self, now: Time) {
        for event in self.fencing.take_events() {
            match event {
                FenceEvent::Applied {
                    target,
                    direction,
                    setting,
                    at,
                } => {
                    let uid = self.fencing.uid(target);
                    let change = (direction, setting);
                    self.reporter.applied(target.0, uid, change, at);
                }
                FenceEvent::Stopped { target, at, after } => {
                    if self.has_deadline(target) {
                        self.access.measurements.record_pod_stop(now, after);
                        self.reporter.pods_stopped(target.0, at);
                    }
                }
            }
            if !self.fencing.is_deadline_open() {
                self.pressed.set(None);
            }
        }
    }

    /// Reports a fence that is wanted and not made: a target that the deadline is about still runs.
    fn report_unfenced(&mut self) {
        let is_wanted = self.verdict == Some(Verdict::Fence) && !self.access.dry_run;
        // A fence that an operator has paused is not missing.
        let is_unfenced = is_wanted && self.fencing.is_deadline_open() && !self.is_paused;
        let (fence, now) = (self.fencing.fence(), self.clock.now());
        let is_fencing = self.verdict == Some(Verdict::Fence);
        self.reporter
            .undone(is_fencing && self.fencing.wants_look(), now);
        self.reporter.fence_state(fence, is_unfenced, now);
    }

    fn has_deadline(&self, target: TargetId) -> bool {
        self.targets[target.0].is_deadline_target
    }

    fn finish(&mut self, CompletedStep { step, result }: CompletedStep) {
        let now = self.clock.now();
        let (target, is_of_flow) = (step.target, !step.can_wait());
        let index = target.0;
        let part = if step.call.is_write() {
            Subsystem::Write(index)
        } else {
            Subsystem::Target(index)
        };
        let is_read = step.call == Call::Read;
        let (reply, mut call_report) = match result {
            Err(StepError::Unanswered(call)) => {
                self.unanswered = Some(call);
                let why = UNANSWERED.to_owned();
                (Reply::Unanswered, CallReport::Problem(why))
            }
            result => interpret(result, self.targets[index].optional),
        };
        if let Some(calls) = self.calls.as_ref().filter(|_| is_of_flow) {
            calls.answered(&step, &self.targets[index], &reply, now);
        }
        let is_conflict = reply == Reply::Conflict;
        if let (Reply::WebhookFailed | Reply::Unanswered, CallReport::Problem(why)) =
            (&reply, &call_report)
        {
            self.webhook_errors[index] = Some(why.clone());
        }
        // Why a record waits is reported with it.
        if let Call::MoveRecord(_) = step.call {
            call_report = CallReport::None;
        }
        let report = self.fencing.reply(step, reply, now);
        self.report_events(now);
        if is_conflict && self.fencing.is_contested(target) {
            call_report = CallReport::Problem(CONTESTED.to_owned());
        }
        match call_report {
            CallReport::None => {}
            CallReport::Works => self.reporter.problem(part, None),
            CallReport::Problem(why) => {
                if is_of_flow && is_read {
                    self.reporter.read_failed(self.direction());
                }
                if is_of_flow && self.verdict == Some(Verdict::Fence) {
                    self.reporter.not_fenced(index, &why);
                }
                self.reporter.problem(part, Some(why));
            }
        }
        self.report_unfenced();
        self.report_kept();
        self.reporter.targets_observed(self.fencing.observed());
        self.end_flow(report, now);
    }

    /// Stops at a step boundary: calls under way may finish, and no new ones start. A record that
    /// was written stays, and the next start finds it.
    pub(crate) async fn drain(&mut self) {
        self.cancel();
        let all = async {
            while let Some(done) = self.under_way.next().await {
                self.finish(done);
            }
        };
        // A call without a response leaves a record, from which the next start continues.
        let _ = timeout(DRAIN, all).await;
    }
}

/// The report of a call to the operator.
#[derive(Debug, PartialEq, Eq)]
enum CallReport {
    /// The call is of no interest to the operator.
    None,
    /// The call succeeded, so an earlier problem is over.
    Works,
    /// The call failed for this reason.
    Problem(String),
}

/// Splits the result of a call into the reply for the fencing and the report for the operator.
fn interpret(result: Result<Reply, StepError>, optional: bool) -> (Reply, CallReport) {
    match result {
        Ok(Reply::Read(Observed::Missing)) if !optional => {
            let why = "it does not exist, and is not optional".to_owned();
            (Reply::Read(Observed::Missing), CallReport::Problem(why))
        }
        // Another client wrote. The next read resolves it.
        Ok(Reply::Conflict) => (Reply::Conflict, CallReport::None),
        Ok(reply) => (reply, CallReport::Works),
        Err(StepError::NotAllowed | StepError::Superseded) => (Reply::Rejected, CallReport::None),
        Err(StepError::CutOff | StepError::Unanswered(_)) => (Reply::Failed, CallReport::None),
        // A target whose kind does not exist does not exist either.
        Err(StepError::Refused(ActuatorError::UnknownKind { .. })) if optional => {
            (Reply::Read(Observed::Missing), CallReport::Works)
        }
        Err(StepError::NotKept(error)) => (Reply::Failed, CallReport::Problem(error.to_string())),
        Err(StepError::Refused(error)) => {
            let reply = if error.is_webhook_failure() {
                Reply::WebhookFailed
            } else if error.is_rejection() {
                Reply::Rejected
            } else {
                Reply::Failed
            };
            (reply, CallReport::Problem(error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests;
