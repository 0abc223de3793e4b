//! Fencing: stopping a cluster's controllers and restoring them exactly.
//!
//! [`Fencing`] owns the targets of a cluster. It applies decisions, hands out [`Step`]s, takes
//! their [`Reply`]s, and returns the instant at which it wants to be polled again. It knows of the
//! targets only what it has read or a watch has shown, so that a restart loses nothing.

mod assistance;
mod direction;
mod flow;
mod kept_record;
mod pause;
mod step;
mod target_flow;
mod target_object;
mod target_view;
mod upkeep;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

pub use direction::{Direction, goal};
pub use kept_record::{DropRecord, KeepRecord, KeptRecord, MoveRecord};
pub use pause::{PausableObject, PauseState};
pub use step::{
    Call, DropMarker, FenceWrite, Purpose, Reply, RestoreWrite, Step, TargetId, WriteAnswer,
    WriteRecord,
};
pub use target_flow::TargetOutcome;
pub use target_object::{Observed, RecordedSetting, ResourceVersion, TargetObject};

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::{Decision, FenceState, Setting, Target, Verdict};
use assistance::Assistance;
use flow::{Flow, has_deadline};
use step::Origin;
use target_view::TargetView;

/// A failed restore is repeated after this.
const RETRY: Duration = Duration::from_secs(1);

/// The targets of a cluster and the flow that changes them.
///
/// Every step that is handed out must come back through [`reply`](Self::reply), whatever its
/// result.
#[derive(Debug)]
pub struct Fencing {
    targets: Arc<[Target]>,
    views: Vec<TargetView>,
    wanted: Option<Direction>,
    parallel_from: Option<Time>,
    flow: Option<Flow>,
    /// Set on a standby that judges that the cluster has to be fenced.
    assistance: Option<Assistance>,
    events: Vec<FenceEvent>,
    /// Flows and refreshes are numbered, so that late replies are recognized.
    last_number: u64,
    /// A failed flow is not followed by the next one before this instant.
    retry_at: Time,
    released_at: Option<Time>,
}

/// A change of a target that a flow has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceEvent {
    /// A setting was applied: the write was acknowledged, or found on the target.
    #[expect(missing_docs, reason = "the names explain themselves")]
    Applied {
        target: TargetId,
        direction: Direction,
        setting: Setting,
        at: Time,
    },
    /// The pods of a fenced target have stopped.
    Stopped {
        /// The target of the fence.
        target: TargetId,
        /// The instant at which the pods were seen to have stopped.
        at: Time,
        /// The time since the write was acknowledged.
        after: Duration,
    },
}

/// The result of a poll.
#[derive(Debug, Default)]
pub struct DueSteps {
    /// The calls to make now.
    pub steps: Vec<Step>,
    /// Targets that were started before their level, because the deadline is near.
    pub started_early: Vec<TargetId>,
    /// The report of a flow that has ended without a call, by what a watch has shown.
    pub report: Option<FlowReport>,
}

/// The report of a flow that has ended or was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowReport {
    /// The direction of the flow.
    pub direction: Direction,
    /// The outcome of each target in the order of the configuration; `None` if it was not finished.
    pub outcomes: Vec<Option<TargetOutcome>>,
    /// The number of operations that were attempted.
    pub attempts: u32,
}

impl Fencing {
    /// Creates the state for targets that were never read.
    pub fn new(targets: Arc<[Target]>) -> Self {
        let views = targets.iter().map(|_| TargetView::default()).collect();
        Self {
            targets,
            views,
            wanted: None,
            parallel_from: None,
            flow: None,
            assistance: None,
            events: Vec::new(),
            last_number: 0,
            retry_at: Time::MIN,
            released_at: None,
        }
    }

    /// Applies a decision as the leader. Hold suspends a flow: nothing is written until a verdict
    /// resumes it. The opposite verdict cancels the flow and returns its report.
    pub fn apply(&mut self, decision: &Decision) -> Option<FlowReport> {
        let was_standby = self.assistance.take().is_some();
        self.wanted = match decision.verdict {
            Verdict::Fence => Some(Direction::Down),
            Verdict::Release => Some(Direction::Up),
            Verdict::Hold => None,
        };
        if self.wanted == Some(Direction::Down) {
            self.retry_at = Time::MIN;
        }
        self.parallel_from = decision.parallel_from;
        self.take_up_contradicted(decision.evidence_at);
        let flow = self.flow.as_ref()?;
        let is_against = self.wanted.is_some_and(|wanted| wanted != flow.direction);
        if is_against || was_standby {
            return self.cancel_flow();
        }
        None
    }

    /// Takes up targets that another client has changed against the wanted direction, if the
    /// evidence of the decision is newer than that.
    fn take_up_contradicted(&mut self, evidence_at: Time) {
        for (index, view) in self.views.iter_mut().enumerate() {
            let contradicted_at = match self.wanted {
                Some(Direction::Down) => view.contradicted_at,
                Some(Direction::Up) => view.marked_since,
                None => None,
            };
            let was_contradicted = view.contradicted_at.is_some();
            view.contradicted_at = contradicted_at.filter(|at| *at > evidence_at);
            if was_contradicted
                && view.contradicted_at.is_none()
                && let (Some(flow), Some(target)) = (self.flow.as_mut(), self.targets.get(index))
                && flow.goes(self.wanted)
                && flow.is_done(TargetId(index))
                && view.is_against(flow.direction, target)
            {
                flow.reopen(TargetId(index));
            }
        }
    }

    /// Returns whether another client has changed a target against the wanted direction: it has
    /// undone a fence, or made one. The next decision that is newer than that is carried out.
    pub fn wants_look(&self) -> bool {
        self.wanted.is_some()
            && self.assistance.is_none()
            && self.views.iter().any(|view| view.contradicted_at.is_some())
    }

    /// Stops acting at once, as on losing leadership. Refreshes go on.
    pub fn cancel(&mut self) -> Option<FlowReport> {
        self.wanted = None;
        self.assistance = None;
        self.cancel_flow()
    }

    fn cancel_flow(&mut self) -> Option<FlowReport> {
        self.flow.take().map(|flow| report(&flow))
    }

    /// Reads all targets without a watch again as soon as possible.
    pub fn refresh(&mut self) {
        for view in self.views.iter_mut().filter(|view| !view.is_watched) {
            view.refresh_now();
        }
    }

    /// Discards what was read and reads all targets without a watch again, as on gaining
    /// leadership. A predecessor may have fenced or released since, and a target that was never
    /// read may need a fence.
    pub fn invalidate(&mut self) {
        for view in self.views.iter_mut().filter(|view| !view.is_watched) {
            view.invalidate();
        }
    }

    /// Notes whether a watch shows every change of a target from now on.
    pub fn set_watched(&mut self, target: TargetId, is_watched: bool, now: Time) {
        let Some(view) = self.views.get_mut(target.0) else {
            return;
        };
        if view.is_watched && !is_watched {
            if let Some(flow) = &mut self.flow {
                flow.watch_lost(target, now);
            }
            view.refresh_now();
        }
        view.is_watched = is_watched;
    }

    /// Takes in a state that a watch has shown. Returns a report if that ended a flow.
    pub fn observe(
        &mut self,
        target: TargetId,
        observed: &Observed,
        now: Time,
    ) -> Option<FlowReport> {
        let view = self.views.get_mut(target.0)?;
        match view.order(observed) {
            Some(Ordering::Less) => return None,
            // Only a read can tell which of the two is newer.
            None => {
                view.refresh_now();
                return None;
            }
            Some(Ordering::Equal | Ordering::Greater) => {}
        }
        self.learn(target, now, |view| view.learn(observed.clone(), now));
        if let Some(flow) = &mut self.flow {
            let assistance = self.assistance.as_ref();
            if assistance.is_some_and(|it| it.leaves_alone(target)) && !flow.is_in_flight(target) {
                flow.leave_to_leader(target);
            }
            // With the record that is kept for it.
            if let Some(observed) = &self.views[target.0].observed {
                flow.observe(target, observed, now);
            }
        }
        self.collect_applied(target);
        self.finish_flow(now)
    }

    /// Returns the calls to make now.
    pub fn poll(&mut self, now: Time) -> DueSteps {
        if let Some(direction) = self.due_flow()
            && now >= self.flow_at()
        {
            let number = self.next_number();
            self.flow = Some(match &self.assistance {
                None => Flow::new(number, direction, &self.targets),
                Some(_) => Flow::standby(number, &self.targets, &self.assisted()),
            });
        }
        let mut due = DueSteps::default();
        if let Some(flow) = self.flow.as_mut().filter(|flow| flow.goes(self.wanted)) {
            (due.steps, due.started_early) = flow.poll(now, self.parallel_from, &self.views);
            for step in &due.steps {
                let (view, target) = (&mut self.views[step.target.0], &self.targets[step.target.0]);
                let timeout = target.rule(flow.direction).timeout;
                if let Some(version) = step.call.version() {
                    view.sent(version, flow.id, now.after(timeout.saturating_mul(2)), now);
                }
            }
        }
        for index in 0..self.views.len() {
            self.collect_applied(TargetId(index));
        }
        due.report = self.finish_flow(now);
        for index in 0..self.views.len() {
            let target = TargetId(index);
            if self.refresh_at(target).is_some_and(|at| now >= at) {
                let number = self.next_number();
                self.views[index].refresh = Some(number);
                due.steps.push(Step {
                    target,
                    call: Call::Read,
                    origin: Origin::Refresh(number),
                    time_limit: self.targets[index].up.timeout,
                    purpose: Purpose::Refresh,
                    is_deadline_target: false,
                });
            }
            due.steps.extend(self.begin_upkeep(target, now));
        }
        due
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the flow, unless it is suspended.
    fn running(&self) -> Option<&Flow> {
        self.flow.as_ref().filter(|flow| flow.goes(self.wanted))
    }

    /// Returns the instant of a target's next refresh. A running flow reads the targets it works
    /// on.
    fn refresh_at(&self, target: TargetId) -> Option<Time> {
        let is_busy = self.running().is_some_and(|flow| !flow.is_done(target));
        let view = self.views.get(target.0).filter(|_| !is_busy)?;
        view.next_refresh(self.wanted)
    }

    /// Returns the direction of a flow that is wanted and needed, but does not exist yet.
    fn due_flow(&self) -> Option<Direction> {
        let wanted = self.wanted.filter(|_| self.flow.is_none())?;
        let is_needed = match &self.assistance {
            None => self.is_needed(wanted),
            Some(assistance) => !assistance.is_over && self.assisted().contains(&true),
        };
        is_needed.then_some(wanted)
    }

    /// Returns the earliest start of the next flow.
    fn flow_at(&self) -> Time {
        match &self.assistance {
            None => self.retry_at,
            Some(assistance) => self.assistance_at(assistance),
        }
    }

    /// Returns whether a flow in this direction would find something to do, as far as is known.
    fn is_needed(&self, direction: Direction) -> bool {
        let mut views = self.views.iter().zip(&*self.targets);
        match direction {
            // A target that was never read, or not since a write of unknown result, may need it:
            // the deadline does not wait for a refresh.
            Direction::Down => views.any(|(view, target)| match &view.observed {
                _ if view.contradicted_at.is_some() => false,
                None => true,
                Some(_) if view.is_unsure() => true,
                Some(Observed::Missing) => !target.optional,
                Some(Observed::Present(_)) => view.runs(target),
            }),
            // A fence is lifted only by a decision that is newer than the fence.
            Direction::Up => {
                views.any(|(view, target)| view.is_marked(target) && view.contradicted_at.is_none())
            }
        }
    }

    /// Takes in the reply to a step. Returns a report if that ended a flow.
    pub fn reply(&mut self, step: Step, reply: Reply, now: Time) -> Option<FlowReport> {
        let Step {
            target,
            call,
            origin,
            ..
        } = step;
        let flow = match origin {
            Origin::Refresh(number) => {
                // An outdated refresh says nothing.
                if self.views.get(target.0)?.refresh == Some(number) {
                    self.absorb(target, &call, reply, None, now);
                }
                return None;
            }
            Origin::Upkeep(number) => {
                self.end_upkeep(target, number, &call, now);
                self.absorb(target, &call, reply, None, now);
                return None;
            }
            Origin::Flow(id) => id,
        };
        let is_current = self.flow.as_ref().is_some_and(|it| it.id == flow);
        let reply = match reply {
            // A read of a cancelled flow may be outdated.
            Reply::Read(observed) if !is_current => Reply::Read(observed),
            reply => self.absorb(target, &call, reply, Some(flow), now),
        };
        if !is_current {
            self.views.get_mut(target.0)?.refresh_now();
            return None;
        }
        let flow = self.flow.as_mut()?;
        let assistance = self.assistance.as_ref();
        let is_left_alone = assistance.is_some_and(|it| it.leaves_alone(target));
        if !(is_left_alone && !call.is_write() && flow.leave_to_leader(target)) {
            flow.reply(target, call, reply, now);
        }
        self.collect_applied(target);
        self.finish_flow(now)
    }

    /// Takes in what a reply tells about a target. Returns the reply for the flow: the result of a
    /// read is replaced by a newer state.
    fn absorb(
        &mut self,
        target: TargetId,
        call: &Call,
        reply: Reply,
        flow: Option<u64>,
        now: Time,
    ) -> Reply {
        self.learn(target, now, |view| {
            view.refresh = None;
            match reply {
                Reply::Read(observed) => Reply::Read(view.read(observed, now)),
                Reply::Written(answer) => {
                    view.written(call, &answer, now);
                    Reply::Written(answer)
                }
                Reply::LeaseWritten => {
                    view.lease_written(call, now);
                    Reply::LeaseWritten
                }
                reply => {
                    view.failed(call, &reply, flow, now);
                    reply
                }
            }
        })
    }

    /// Changes the view of a target, and notes what follows from the new state.
    fn learn<T>(
        &mut self,
        id: TargetId,
        now: Time,
        change: impl FnOnce(&mut TargetView) -> T,
    ) -> T {
        let (view, target) = (&mut self.views[id.0], &self.targets[id.0]);
        let (was_fenced, before) = (view.is_fenced(target), view.present().cloned());
        let was_marked = view.has_marker();
        let result = change(view);
        let is_marked = view.has_marker();
        view.marked_since = view.marked_since.filter(|_| is_marked);
        if is_marked {
            view.marked_since.get_or_insert(now);
        }
        let (is_against, is_new) = match self.wanted {
            Some(Direction::Down) => (view.runs(target), was_fenced),
            Some(Direction::Up) => (is_marked, !was_marked),
            None => (false, false),
        };
        if !is_against {
            view.contradicted_at = None;
        } else if is_new && self.assistance.is_none() {
            view.contradicted_at.get_or_insert(now);
        }
        if view.runs(target) || view.present().is_none() {
            // Restored or deleted before its pods were seen to stop: a later stop is another one.
            view.stopping_since = None;
        }
        let has_stopped = view.has_stopped(target);
        if let Some(since) = view.stopping_since.take_if(|_| has_stopped) {
            self.events.push(FenceEvent::Stopped {
                target: id,
                at: now,
                after: now.since(since),
            });
        }
        if let Some(assistance) = &mut self.assistance {
            assistance.track(id, before.as_ref(), self.views[id.0].present());
        }
        result
    }

    fn collect_applied(&mut self, target: TargetId) {
        let Some(flow) = &mut self.flow else { return };
        let (direction, Some(applied)) = (flow.direction, flow.take_applied(target)) else {
            return;
        };
        self.events.push(FenceEvent::Applied {
            target,
            direction,
            setting: applied.setting,
            at: applied.at,
        });
        let is_fence = direction == Direction::Down;
        self.views[target.0].stopping_since = is_fence.then_some(applied.at);
    }

    /// Returns the changes since the last call.
    pub fn take_events(&mut self) -> Vec<FenceEvent> {
        std::mem::take(&mut self.events)
    }

    fn finish_flow(&mut self, now: Time) -> Option<FlowReport> {
        let flow = self.flow.take_if(|flow| flow.is_over())?;
        if let Some(assistance) = &mut self.assistance {
            assistance.is_over = true;
        }
        if flow
            .outcomes()
            .any(|outcome| outcome == Some(TargetOutcome::Failed))
        {
            self.retry_at = now.after(RETRY);
        }
        self.released_at = flow.released_at().or(self.released_at);
        self.refresh();
        Some(report(&flow))
    }

    /// Returns the instant at which there is something to do without a reply.
    pub fn next_wake(&self, now: Time) -> Option<Time> {
        let flow = self
            .running()
            .and_then(|flow| flow.next_wake(now, self.parallel_from, &self.views));
        let due = self.due_flow().map(|_| self.flow_at());
        let indices = 0..self.views.len();
        let views = indices.flat_map(|index| {
            let upkeep = self.upkeep(TargetId(index)).map(|(at, _)| at);
            [self.refresh_at(TargetId(index)), upkeep]
        });
        views.flatten().chain(flow).chain(due).min()
    }

    /// Returns whether the last write to a target was given up because other clients keep changing
    /// it.
    pub fn is_contested(&self, target: TargetId) -> bool {
        let flow = self.flow.as_ref();
        flow.is_some_and(|flow| flow.is_contested(target))
    }

    /// Returns the state of the targets, taken together.
    pub fn fence(&self) -> FenceState {
        let mut fence = FenceState::None;
        let mut is_full = true;
        for (view, target) in self.views.iter().zip(&*self.targets) {
            match &view.observed {
                None => return FenceState::Unknown,
                Some(Observed::Present(object)) if !object.ignored => {
                    is_full &= !view.runs(target);
                    if view.is_marked(target) {
                        fence = FenceState::Partial;
                    }
                }
                Some(_) => {}
            }
        }
        if fence == FenceState::Partial && is_full {
            FenceState::Full
        } else {
            fence
        }
    }

    /// Returns whether a target could be fenced and is not, or was never read.
    pub fn is_open(&self) -> bool {
        let mut views = self.views.iter().zip(&*self.targets);
        self.is_needed(Direction::Down)
            || views.any(|(view, target)| view.contradicted_at.is_some() && view.runs(target))
    }

    /// Returns whether a target that the deadline is about could be fenced and is not, or was never
    /// read.
    pub fn is_deadline_open(&self) -> bool {
        let views = self.views.iter().zip(&*self.targets);
        let mut deadline_targets = views.filter(|(_, target)| has_deadline(target, &self.targets));
        deadline_targets.any(|(view, target)| view.observed.is_none() || view.runs(target))
    }

    /// Returns the instant at which all controllers were last restored by this replica.
    pub fn released_at(&self) -> Option<Time> {
        self.released_at
    }

    /// Returns the uid of a target that was read.
    pub fn uid(&self, target: TargetId) -> Option<&str> {
        let object = self.views.get(target.0)?.present()?;
        Some(&*object.uid).filter(|uid| !uid.is_empty())
    }

    /// Returns each target as it was last read.
    pub fn observed(&self) -> impl Iterator<Item = (&Target, Option<&Observed>)> {
        self.targets
            .iter()
            .zip(self.views.iter().map(|view| view.observed.as_ref()))
    }
}

fn report(flow: &Flow) -> FlowReport {
    FlowReport {
        direction: flow.direction,
        outcomes: flow.outcomes().collect(),
        attempts: flow.attempts(),
    }
}
