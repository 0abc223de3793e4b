//! The fence executor of a probe: it performs the calls that the fencing state machine asks for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use kelpie_core::Time;
use kelpie_core::prober::fence::{Fencing, Observed, Purpose, Reply, Step};
use kelpie_core::prober::{Decision, FenceState, Target, Verdict};
use kelpie_kube::AnchoredClock;
use kelpie_kube::actuator::{ActuatorError, Actuators, BatchReader};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_runtime::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::deadline_queue::{DeadlineQueue, Priority};
use crate::observer::RoundContext;
use crate::reporter::ProbeReporter;
use crate::subsystem::Subsystem;

/// A fencing call without a response within this time is given up and repeated: the connection may
/// be half open, and the deadline is seconds away.
const CALL_LIMIT: Duration = Duration::from_secs(3);
/// A round may start this much later than planned while calls of the cluster's flow are under way.
const CROWDED: Duration = Duration::from_secs(2);
/// The number of fencing calls under way at once. More would only queue inside the API server, in
/// an order of its own.
const MAX_IN_FLIGHT: usize = 64;
/// Reported for a target that another client keeps writing to.
const CONTESTED: &str = "another client keeps changing it; retrying";
/// Calls that are under way when a probe ends get this long to finish.
const DRAIN: Duration = Duration::from_secs(2);

/// Access to the targets in the seed. Clones share the queue.
#[derive(Clone)]
pub(crate) struct SeedAccess {
    /// For refreshes: together with those of other clusters, behind the limit on routine requests.
    batch_reader: BatchReader,
    /// For flows: nothing in front of it but the queue.
    actuators: Actuators,
    queue: DeadlineQueue,
    leadership: Receiver<Leadership>,
    /// Targets are read, but never written.
    dry_run: bool,
}

impl SeedAccess {
    pub(crate) fn new(
        seed: &ClusterClient,
        batch_reader: BatchReader,
        leadership: Receiver<Leadership>,
        dry_run: bool,
    ) -> Self {
        Self {
            batch_reader,
            actuators: seed.actuators().with_limit(CALL_LIMIT),
            queue: DeadlineQueue::new(MAX_IN_FLIGHT),
            leadership,
            dry_run,
        }
    }
}

/// The targets of a cluster and the calls under way.
pub(crate) struct FenceExecutor {
    cluster: Arc<str>,
    clock: AnchoredClock,
    targets: Arc<[Target]>,
    fencing: Fencing,
    access: SeedAccess,
    /// This replica leads and may write.
    acts: bool,
    /// This replica became leader while a fence stands or is wanted: a round is due at once.
    is_pressed: bool,
    /// The deadline of the flow, which decides its place in the queue.
    deadline: Time,
    /// Cancelled when the verdict changes: calls that were not sent by then are dropped.
    cancel: CancellationToken,
    verdict: Option<Verdict>,
    /// Calls of a flow.
    under_way: FuturesUnordered<BoxFuture<'static, CompletedStep>>,
    /// Refreshes. The end of a probe does not wait for them.
    refreshes: FuturesUnordered<BoxFuture<'static, CompletedStep>>,
    pub(crate) reporter: ProbeReporter,
}

/// A step and its result.
struct CompletedStep {
    step: Step,
    result: Result<Reply, StepError>,
}

/// The reason why a step was not carried out.
enum StepError {
    /// This replica does not lead, or cannot be sure of it.
    NotLeading,
    /// The verdict changed before the call was sent.
    Superseded,
    Refused(ActuatorError),
}

impl FenceExecutor {
    pub(crate) fn new(
        cluster: Arc<str>,
        clock: AnchoredClock,
        targets: Arc<[Target]>,
        access: SeedAccess,
        reporter: ProbeReporter,
    ) -> Self {
        let mut executor = Self {
            cluster,
            clock,
            fencing: Fencing::new(Arc::clone(&targets)),
            targets,
            access,
            acts: false,
            is_pressed: false,
            deadline: Time::MAX,
            cancel: CancellationToken::new(),
            verdict: None,
            under_way: FuturesUnordered::new(),
            refreshes: FuturesUnordered::new(),
            reporter,
        };
        executor.acts = executor.leads();
        executor
    }

    /// Returns the state of the fence at the start of a round.
    pub(crate) fn round_context(&self) -> RoundContext {
        RoundContext {
            fence: self.fencing.fence(),
            stands_by: !(self.acts && self.fencing.is_open()),
            released: self.fencing.released_at(),
            delays: kelpie_core::prober::Delays::default(),
        }
    }

    /// Applies a decision. A replica that does not act only reports it.
    pub(crate) fn apply(&mut self, decision: &Decision) {
        // Renewals are sent silently: a replica that saw an expired one must find out that it
        // leads.
        self.update_leadership();
        self.is_pressed = false;
        if self.verdict.replace(decision.verdict) != Some(decision.verdict) {
            self.cancel_waiting();
        }
        self.reporter
            .decided(decision, self.fencing.fence(), self.acts);
        self.deadline = decision.deadline.unwrap_or(Time::MAX);
        if self.access.dry_run {
            self.reporter
                .log_dry_run(decision.verdict, self.fencing.observed());
        }
        if self.acts
            && let Some(report) = self.fencing.apply(decision)
        {
            self.reporter.flow_ended(report, self.clock.now());
        }
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

    /// Performs calls until the instant, or until this replica takes over a fence. Rounds of other
    /// clusters start as planned: a standby observes all the time and knows their deadlines.
    ///
    /// Returns whether it took longer because calls were under way. They take milliseconds, unless
    /// a whole seed is being fenced. Then a round per cluster and second would take processor time
    /// that the fences need.
    pub(crate) async fn work_until(&mut self, instant: Instant) -> bool {
        let mut rest = pin!(sleep_until(instant));
        while !self.is_pressed && self.turn(rest.as_mut()).await.is_none() {}
        if !self.is_crowded() {
            return false;
        }
        rest.as_mut().reset(instant + CROWDED);
        while self.is_crowded() && self.turn(rest.as_mut()).await.is_none() {}
        true
    }

    /// Returns whether calls of a fence are under way that a round would not change.
    pub(crate) fn is_crowded(&self) -> bool {
        let is_fencing = self.verdict == Some(Verdict::Fence);
        is_fencing && !self.is_pressed && !self.under_way.is_empty()
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
        if leads && !self.acts {
            let is_fenced = self.fencing.fence() != FenceState::None;
            self.is_pressed = is_fenced || self.verdict == Some(Verdict::Fence);
            // A predecessor may have fenced or released since.
            self.fencing.invalidate();
        } else if self.acts && !leads {
            self.cancel();
        }
        self.acts = leads;
    }

    fn cancel(&mut self) {
        self.cancel_waiting();
        if let Some(report) = self.fencing.cancel() {
            self.reporter.flow_ended(report, self.clock.now());
        }
    }

    /// Drops calls that still wait in the queue.
    fn cancel_waiting(&mut self) {
        std::mem::take(&mut self.cancel).cancel();
    }

    fn begin_due_steps(&mut self) {
        let due = self.fencing.poll(self.clock.now());
        for target in due.started_early {
            self.reporter.started_early(target.0);
        }
        for step in due.steps {
            self.reporter.calling(&step);
            let target = self.targets[step.target.0].clone();
            let (access, cluster) = (self.access.clone(), Arc::clone(&self.cluster));
            let (deadline, cancel) = (self.deadline, self.cancel.clone());
            let calls = if step.can_wait() {
                &self.refreshes
            } else {
                &self.under_way
            };
            calls.push(Box::pin(async move {
                let result = access
                    .perform(&cluster, &target, &step, deadline, &cancel)
                    .await;
                CompletedStep { step, result }
            }));
        }
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
        let (reply, mut call_report) = interpret(result, self.targets[index].optional);
        if matches!(reply, Reply::Written(_)) {
            let uid = self.fencing.uid(target);
            self.reporter.written(index, uid, &step.call, now);
        }
        let is_conflict = reply == Reply::Conflict;
        let report = self.fencing.reply(step, reply, now);
        if is_conflict && self.fencing.is_contested(target) {
            call_report = CallReport::Problem(CONTESTED.to_owned());
        }
        match call_report {
            CallReport::None => {}
            CallReport::Works => self.reporter.problem(part, None),
            CallReport::Problem(why) => {
                if is_of_flow && self.verdict == Some(Verdict::Fence) {
                    self.reporter.not_fenced(index, &why);
                }
                self.reporter.problem(part, Some(why));
            }
        }
        self.reporter.targets_observed(self.fencing.observed());
        if let Some(report) = report {
            self.reporter.flow_ended(report, now);
        }
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

impl SeedAccess {
    async fn perform(
        &self,
        cluster: &Arc<str>,
        target: &Target,
        step: &Step,
        deadline: Time,
        cancel: &CancellationToken,
    ) -> Result<Reply, StepError> {
        let urgency = match step.purpose {
            Purpose::Refresh => {
                let read = self.batch_reader.read(cluster, target).await;
                let observed = read.ok_or(StepError::Superseded)?;
                return observed.map(Reply::Read).map_err(StepError::Refused);
            }
            // A target that is fenced already must not delay one that is not.
            Purpose::Readiness => Priority::Patient,
            Purpose::Flow | Purpose::Attempt if step.is_deadline_target => {
                Priority::Pressing(deadline)
            }
            Purpose::Flow | Purpose::Attempt => Priority::Deadline(deadline),
        };
        let turn = cancel.run_until_cancelled(self.queue.enter(urgency)).await;
        let Some(permit) = turn.filter(|_| !cancel.is_cancelled()) else {
            return Err(StepError::Superseded);
        };
        // Checked right before the write: a process that was paused in between finds out here.
        if step.call.is_write() && !self.leadership.borrow().may_act(Instant::now()) {
            return Err(StepError::NotLeading);
        }
        // Boxed after the wait: a call takes 7 KB while it is under way, and at the start every
        // cluster of a seed has several in the queue.
        let reply = Box::pin(self.actuators.perform(cluster, target, &step.call)).await;
        drop(permit);
        reply.map_err(StepError::Refused)
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
        Err(StepError::NotLeading | StepError::Superseded) => (Reply::Failed, CallReport::None),
        // A target whose kind does not exist does not exist either.
        Err(StepError::Refused(ActuatorError::UnknownKind { .. })) if optional => {
            (Reply::Read(Observed::Missing), CallReport::Works)
        }
        Err(StepError::Refused(error)) => (Reply::Failed, CallReport::Problem(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
