//! The probe of one cluster: a task that owns all state of the cluster.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::pending;
use kelpie_core::Time;
use kelpie_core::prober::overview::{ClusterOrigin, NodeList, silent_zones};
use kelpie_core::prober::{AcceptedList, Decision, ListResult, Observation, RecentWorst, Verdict};
use kelpie_kube::AnchoredClock;
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::fence_executor::FenceExecutor;
use crate::guard_executor::{GuardExecutor, GuardReport};
use crate::inputs::{ProbeInputs, same_arc};
use crate::look::LookResult;
use crate::observer::{Answer, NodesResult, Observer, RoundContext};
use crate::recording::RecordedEvaluator;
use crate::subsystem::Subsystem;

/// The first looks of all clusters are spread over this time, to avoid a stampede at the start.
const SPREAD: Duration = Duration::from_secs(1);
/// Looks start this far apart while calls of the cluster's fence are under way. These take
/// milliseconds, unless a whole seed is being fenced. Then more looks would take processor time
/// that the fences need.
const CROWDED: Duration = Duration::from_secs(3);

/// A look that is wanted at once starts this long after the last one at the earliest.
const WANTED_SPACING: Duration = Duration::from_millis(300);
/// A look starts this long before the evidence of the last list is lost.
const LAST_CHANCE: Duration = Duration::from_millis(500);

/// Observes its cluster, evaluates the observations and executes the decisions.
///
/// A look starts when the last decision asks for it, and its answer leads to the next decision.
/// While a trip or a deadline is near, looks overlap, and decisions are reviewed as time goes by
/// even if no look is answered.
pub(crate) struct Probe {
    pub(crate) clock: AnchoredClock,
    pub(crate) evaluator: RecordedEvaluator,
    pub(crate) observer: Observer,
    pub(crate) executor: FenceExecutor,
    /// `None` if the guard is off.
    pub(crate) guard: Option<Box<GuardExecutor>>,
    pub(crate) inputs: watch::Receiver<ProbeInputs>,
    pub(crate) cancellation: ProbeCancellation,
    pub(crate) schedule: ProbeSchedule,
}

/// The tokens that end a probe.
#[derive(Clone, Debug)]
pub(crate) struct ProbeCancellation {
    /// Cancelled when the cluster is no longer probed, or the process shuts down.
    pub(crate) cancelled: CancellationToken,
    /// Cancelled when the process shuts down.
    pub(crate) shutdown: CancellationToken,
}

/// The instants at which a probe acts without an answer.
#[derive(Debug)]
pub(crate) struct ProbeSchedule {
    /// The start of the next look.
    next_look: Time,
    /// The instant for which that look is planned, after other looks and calls under way.
    look_due: Time,
    /// The instant at which the last decision is reviewed if no look was answered.
    review_at: Option<Time>,
    /// The instant at which the evidence of the last list is lost.
    evidence_until: Option<Time>,
    /// Looks may overlap.
    is_pressed: bool,
    /// The start of the last look, and the time for which it was planned.
    last_look: (Time, Time),
    /// The last list that was read.
    last_list: Option<AcceptedList>,
    /// The lateness of this probe's timers.
    lateness: RecentWorst,
}

/// An event that a probe reacts to.
enum ProbeEvent {
    Answer(Answer),
    LookDue,
    ReviewDue,
    /// The grace period or the credentials have changed.
    InputsChanged,
    /// Another client has undone the fence, or this replica has taken over.
    LookWanted,
    GuardChanged(GuardReport),
    /// A page shows the nodes.
    NodesWanted,
}

impl ProbeSchedule {
    pub(crate) fn new(now: Time) -> Self {
        let next_look = now.after(SPREAD.mul_f64(fastrand::f64()));
        Self {
            next_look,
            look_due: next_look,
            review_at: None,
            evidence_until: None,
            is_pressed: false,
            last_look: (next_look, next_look),
            last_list: None,
            lateness: RecentWorst::default(),
        }
    }

    /// Returns the instant of the next look. It does not wait for ever for those under way.
    fn look_at(&self, observer: &Observer, is_crowded: bool) -> Time {
        let (looks, last_start) = (observer.looks(), self.last_look.0);
        let mut at = self.next_look;
        if !looks.is_empty() {
            at = at.max(last_start.after(looks.spacing(self.is_pressed)));
        }
        if is_crowded {
            at = at.max(last_start.after(CROWDED));
        }
        let last_chance = self.evidence_until.map(|until| until.before(LAST_CHANCE));
        last_chance
            .filter(|last_chance| *last_chance > last_start)
            .map_or(at, |last_chance| at.min(last_chance))
    }

    /// Plans what follows from a decision. A review does not put off a look that was planned.
    fn plan(&mut self, decision: &Decision, is_review: bool) {
        let next = decision.next_wake.at;
        self.next_look = if is_review {
            next.min(self.next_look)
        } else {
            next
        };
        self.review_at = decision.review_at;
        self.evidence_until = decision.evidence_until;
        self.is_pressed = decision.is_pressed;
    }
}

impl Probe {
    /// Looks and decides until the probe is cancelled, then finishes the calls in flight.
    pub(crate) async fn run(&mut self) {
        let cancelled = self.cancellation.cancelled.clone();
        loop {
            // Pinned here: a future that is passed on by value takes its space in the task twice.
            let step = pin!(self.step());
            if cancelled.run_until_cancelled(step).await.is_none() {
                break;
            }
        }
        self.executor.drain().await;
        if let Some(guard) = &mut self.guard
            && !self.cancellation.shutdown.is_cancelled()
        {
            guard.remove().await;
        }
    }

    /// Waits for the next event, while fencing calls go on, and reacts to it.
    async fn step(&mut self) {
        match self.next_event().await {
            ProbeEvent::Answer(Answer::Look(look)) => self.look_answered(look).await,
            ProbeEvent::Answer(Answer::Nodes(nodes)) => self.nodes_answered(nodes),
            ProbeEvent::ReviewDue => self.review(),
            ProbeEvent::LookDue => {
                let (now, planned) = (self.clock.now(), self.schedule.look_due);
                self.schedule.lateness.record(now, now.since(planned));
                self.start_look(planned);
            }
            ProbeEvent::InputsChanged => {
                let now = self.clock.now();
                self.start_look(now);
            }
            ProbeEvent::GuardChanged(report) => self.executor.reporter.guard(&report),
            ProbeEvent::NodesWanted => {
                let machines = self.observer.machines();
                let (leases, grace) = (self.evaluator.leases(), self.evaluator.grace());
                let nodes = NodeList::new(leases, machines, grace, self.clock.now());
                self.executor.reporter.show_nodes(nodes);
            }
            // The next event is the look, as soon as one may start.
            ProbeEvent::LookWanted => {}
        }
    }

    async fn next_event(&mut self) -> ProbeEvent {
        let mut look_at = self
            .schedule
            .look_at(&self.observer, self.executor.is_crowded());
        if self.executor.wants_look() && self.observer.looks().is_empty() {
            look_at = look_at.min(self.schedule.last_look.0.after(WANTED_SPACING));
        }
        self.schedule.look_due = look_at;
        let look_at = self.clock.instant(look_at);
        let review_at = self.schedule.review_at.unwrap_or(Time::MAX);
        let review_at = self.clock.instant(review_at);
        let (grace, internal) = {
            let known = self.inputs.borrow_and_update();
            (known.grace, known.internal.clone())
        };
        let nodes_wanted = self.executor.reporter.nodes_wanted();
        let tenant = self.guard.as_ref().and_then(|_| self.observer.tenant());
        let (inputs, observer) = (&mut self.inputs, &mut self.observer);
        let guard = self.guard.as_deref_mut();
        let guard_changed = async move {
            match guard {
                Some(guard) => guard.next_change(tenant.as_ref()).await,
                None => pending().await,
            }
        };
        let inputs_changed = async move {
            // An error means that the sender is gone: the probe is being cancelled.
            let _ = inputs
                .wait_for(|inputs| {
                    inputs.grace != grace || !same_arc(inputs.internal.as_ref(), internal.as_ref())
                })
                .await;
        };
        // Pinned here: a future that is passed on by value takes its space in the task twice.
        let event = pin!(async move {
            tokio::select! {
                biased;
                answer = observer.next_answer() => ProbeEvent::Answer(answer),
                () = inputs_changed => ProbeEvent::InputsChanged,
                () = sleep_until(look_at) => ProbeEvent::LookDue,
                () = sleep_until(review_at) => ProbeEvent::ReviewDue,
                report = guard_changed => ProbeEvent::GuardChanged(report),
                () = nodes_wanted => ProbeEvent::NodesWanted,
            }
        });
        let event = self.executor.work_until_look_wanted(event).await;
        event.unwrap_or(ProbeEvent::LookWanted)
    }

    fn start_look(&mut self, planned: Time) {
        self.apply_inputs();
        let now = self.clock.now();
        self.schedule.last_look = (now, planned);
        if let Err(problem) = self.observer.start_look() {
            let (context, is_pressed) = (self.context(), self.schedule.is_pressed);
            let result = self
                .observer
                .round_without_access(problem, context, is_pressed);
            let decision = self.evaluator.decide(&result.observation);
            self.executor.reporter.round(planned, result, &decision);
            self.apply(&decision, false);
        }
    }

    fn apply_inputs(&mut self) {
        let inputs = self.inputs.borrow_and_update().clone();
        self.observer.apply_inputs(&inputs, &mut self.evaluator);
        self.executor.set_grace(self.evaluator.grace());
    }

    fn context(&self) -> RoundContext {
        let now = self.clock.now();
        let mut context = self.executor.round_context();
        context.delays.wake = self.schedule.lateness.at(now);
        context
    }

    async fn look_answered(&mut self, look: LookResult) {
        self.apply_inputs();
        let (context, is_pressed) = (self.context(), self.schedule.is_pressed);
        let planned = self.schedule.last_look.1;
        let result = {
            let evaluator = &mut self.evaluator;
            let round = self.observer.round(look, evaluator, context, is_pressed);
            let round = pin!(round);
            self.executor.work_while(round).await
        };
        if let ListResult::Read(listed) = result.observation.lists {
            self.schedule.last_list = Some(listed);
            if self.evaluator.lacks_nodes() {
                // Nothing can be judged before the first list of nodes, which is under way.
                self.schedule.next_look = Time::MAX;
                return;
            }
        }
        let decision = self.evaluator.decide(&result.observation);
        self.executor.reporter.round(planned, result, &decision);
        self.apply(&decision, false);
    }

    /// Judges the last list again, with the nodes that have arrived.
    fn nodes_answered(&mut self, nodes: NodesResult) {
        self.apply_inputs();
        let read = self.observer.observe_nodes(nodes, &mut self.evaluator);
        let is_read = read.is_ok();
        let problem = read.unwrap_or_else(Some);
        let lists = match self.schedule.last_list {
            Some(listed) if is_read => ListResult::Read(listed),
            _ if self.evaluator.lacks_nodes() => ListResult::Failed,
            _ => ListResult::NotAsked,
        };
        self.executor.reporter.problem(Subsystem::Nodes, problem);
        let mut observation = self.observation();
        observation.lists = lists;
        let decision = self.evaluator.decide(&observation);
        let is_first = self.schedule.next_look == Time::MAX;
        self.apply(&decision, !is_first);
    }

    fn review(&mut self) {
        self.apply_inputs();
        let observation = self.observation();
        let decision = self.evaluator.decide(&observation);
        self.apply(&decision, true);
    }

    fn observation(&self) -> Observation {
        self.observer
            .observation(self.schedule.last_look.0, self.context())
    }

    fn apply(&mut self, decision: &Decision, is_review: bool) {
        self.schedule.plan(decision, is_review);
        let is_due = decision.is_pressed || decision.verdict == Verdict::Fence;
        self.executor
            .set_pressed(decision.deadline.filter(|_| is_due));
        self.executor.apply(decision);
        self.show_origin();
        if let Some(guard) = &mut self.guard {
            guard.judge(&self.evaluator, decision);
        }
    }
    /// Shows where a cluster runs that was just fenced, so that a page can find what several of
    /// them share. The fence is made by then.
    fn show_origin(&self) {
        if !self.executor.reporter.lacks_origin() {
            return;
        }
        let (leases, grace) = (self.evaluator.leases(), self.evaluator.grace());
        self.executor.reporter.set_origin(ClusterOrigin {
            api_server: self.observer.tenant().map(|tenant| tenant.server()),
            zones: silent_zones(leases, grace, self.clock.now()),
            ..ClusterOrigin::default()
        });
    }
}
