//! Fencing: stopping a cluster's controllers and restoring them exactly.
//!
//! [`Fencing`] owns the targets of a cluster. It applies decisions, hands out [`Step`]s, takes
//! their [`Reply`]s, and returns the instant at which it wants to be polled again. It knows of the
//! targets only what it has read, so that a restart loses nothing.

mod flow;
mod step;
mod target_flow;
mod target_object;

use std::sync::Arc;
use std::time::Duration;

pub use step::{
    Call, DropMarker, FenceWrite, Purpose, Reply, RestoreWrite, Step, TargetId, WriteRecord,
};
pub use target_flow::{Direction, TargetOutcome, goal};
pub use target_object::{Observed, RecordedSetting, ResourceVersion, TargetObject};

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::{Decision, FenceState, Target, Verdict};
use crate::time::micros;
use flow::Flow;
use step::Origin;

/// Targets are read at least this often, to find changes by others. All clusters read at the same
/// instants, so that one list can serve them all.
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// While a fence is wanted, targets are read this often. A controller that is started against the
/// fence must be stopped before it turns a node Unknown, which takes it the whole grace period.
const FENCED_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// A failed read or restore is repeated after this.
const RETRY: Duration = Duration::from_secs(1);
/// Reads that keep failing are repeated ever more slowly, up to [`REFRESH_INTERVAL`].
const MOST_DOUBLINGS: u32 = 9;

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
    /// Flows and refreshes are numbered, so that late replies are recognized.
    last_number: u64,
    /// A failed flow is not followed by the next one before this instant.
    retry_at: Time,
    released_at: Option<Time>,
}

/// The last state read of a target, and the schedule of its refreshes.
#[derive(Debug)]
struct TargetView {
    observed: Option<Observed>,
    /// A write was sent since, and its result is unknown.
    is_unsure: bool,
    read_at: Time,
    /// The instant of the next refresh.
    refresh_at: Time,
    /// The number of consecutive failed refreshes.
    failures: u32,
    /// The refresh under way. It is outdated by anything newer that is learned about the target.
    refresh: Option<u64>,
}

/// The result of a poll.
#[derive(Debug, Default)]
pub struct DueSteps {
    /// The calls to make now.
    pub steps: Vec<Step>,
    /// Targets that were started before their level, because the deadline is near.
    pub started_early: Vec<TargetId>,
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
            last_number: 0,
            retry_at: Time::MIN,
            released_at: None,
        }
    }

    /// Applies a decision. Hold suspends a flow: nothing is written until a verdict resumes it. The
    /// opposite verdict cancels the flow and returns its report.
    pub fn apply(&mut self, decision: &Decision) -> Option<FlowReport> {
        self.wanted = match decision.verdict {
            Verdict::Fence => Some(Direction::Down),
            Verdict::Release => Some(Direction::Up),
            Verdict::Hold => None,
        };
        if self.wanted == Some(Direction::Down) {
            self.retry_at = Time::MIN;
        }
        self.parallel_from = decision.parallel_from;
        let wanted = self.wanted?;
        let is_against = self.flow.as_ref()?.direction != wanted;
        is_against.then(|| self.cancel_flow()).flatten()
    }

    /// Stops acting at once, as on losing leadership. Refreshes go on.
    pub fn cancel(&mut self) -> Option<FlowReport> {
        self.wanted = None;
        self.cancel_flow()
    }

    fn cancel_flow(&mut self) -> Option<FlowReport> {
        self.flow.take().map(|flow| report(&flow))
    }

    /// Reads all targets again as soon as possible.
    pub fn refresh(&mut self) {
        for view in &mut self.views {
            view.refresh_now();
        }
    }

    /// Discards what was read and reads all targets again, as on gaining leadership. A predecessor
    /// may have fenced or released since, and a target that was never read may need a fence.
    pub fn invalidate(&mut self) {
        for view in &mut self.views {
            *view = TargetView::default();
        }
    }

    /// Returns the calls to make now.
    pub fn poll(&mut self, now: Time) -> DueSteps {
        if let Some(direction) = self.due_flow()
            && now >= self.retry_at
        {
            let number = self.next_number();
            self.flow = Some(Flow::new(number, direction, &self.targets));
        }
        let mut due = DueSteps::default();
        if let Some(flow) = self.flow.as_mut().filter(|flow| flow.goes(self.wanted)) {
            (due.steps, due.started_early) = flow.poll(now, self.parallel_from);
        }
        for index in 0..self.views.len() {
            let target = TargetId(index);
            if self.refresh_at(target).is_some_and(|at| now >= at) {
                let number = self.next_number();
                self.views[index].refresh = Some(number);
                due.steps.push(Step {
                    target,
                    call: Call::Read,
                    origin: Origin::Refresh(number),
                    purpose: Purpose::Refresh,
                    is_deadline_target: false,
                });
            }
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
        let view = self.views.get(target.0)?;
        let is_watched = self.wanted == Some(Direction::Down) && view.failures == 0;
        let watched_at = next_refresh(view.read_at, FENCED_REFRESH_INTERVAL);
        let refresh_at = if is_watched {
            view.refresh_at.min(watched_at)
        } else {
            view.refresh_at
        };
        (view.refresh.is_none() && !is_busy).then_some(refresh_at)
    }

    /// Returns the direction of a flow that is wanted and needed, but does not exist yet.
    fn due_flow(&self) -> Option<Direction> {
        self.wanted
            .filter(|wanted| self.flow.is_none() && self.is_needed(*wanted))
    }

    /// Returns whether a flow in this direction would find something to do, as far as is known.
    fn is_needed(&self, direction: Direction) -> bool {
        let mut views = self.views.iter().zip(&*self.targets);
        match direction {
            // A target that was never read, or not since a write of unknown result, may need it:
            // the deadline does not wait for a refresh.
            Direction::Down => views.any(|(view, target)| match &view.observed {
                None => true,
                Some(_) if view.is_unsure => true,
                Some(Observed::Missing) => !target.optional,
                Some(Observed::Present(object)) => is_running(object, target),
            }),
            Direction::Up => views.any(|(view, _)| match &view.observed {
                Some(Observed::Present(object)) => object.marked,
                Some(Observed::Missing) | None => false,
            }),
        }
    }

    /// Takes in the reply to a step. Returns a report if that ended a flow.
    pub fn reply(&mut self, step: Step, reply: Reply, now: Time) -> Option<FlowReport> {
        let view = self.views.get_mut(step.target.0)?;
        match step.origin {
            Origin::Refresh(number) if view.refresh == Some(number) => {
                view.refresh = None;
                view.update(&step.call, &reply, now);
                self.reopen_if_undone(step.target);
                None
            }
            Origin::Flow(id) if self.flow.as_ref().is_some_and(|flow| flow.id == id) => {
                view.refresh = None;
                view.update(&step.call, &reply, now);
                let flow = self.flow.as_mut()?;
                flow.reply(step.target, step.call, reply, now);
                self.finish_flow(now)
            }
            // An outdated refresh says nothing. A call of a cancelled flow may have changed
            // something.
            Origin::Refresh(_) => None,
            Origin::Flow(_) => {
                view.is_unsure |= step.call.is_write();
                view.refresh_now();
                None
            }
        }
    }

    /// Takes a finished target up again if its fence was undone: one target may delay a flow for
    /// long, and the fence of the others must last.
    fn reopen_if_undone(&mut self, target: TargetId) {
        let (Some(flow), Some(view), Some(rule)) = (
            self.flow.as_mut(),
            self.views.get(target.0),
            self.targets.get(target.0),
        ) else {
            return;
        };
        let is_undone =
            matches!(&view.observed, Some(Observed::Present(object)) if is_running(object, rule));
        if flow.direction == Direction::Down && flow.is_done(target) && is_undone {
            flow.reopen(target);
        }
    }

    fn finish_flow(&mut self, now: Time) -> Option<FlowReport> {
        let flow = self.flow.take_if(|flow| flow.is_over())?;
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
            .and_then(|flow| flow.next_wake(now, self.parallel_from));
        let due = self.due_flow().map(|_| self.retry_at);
        let indices = 0..self.views.len();
        let refreshes = indices.filter_map(|index| self.refresh_at(TargetId(index)));
        refreshes.chain(flow).chain(due).min()
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
                    is_full &= !is_running(object, target);
                    if object.marked {
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
        self.is_needed(Direction::Down)
    }

    /// Returns the instant at which all controllers were last restored by this replica.
    pub fn released_at(&self) -> Option<Time> {
        self.released_at
    }

    /// Returns the uid of a target that was read.
    pub fn uid(&self, target: TargetId) -> Option<&str> {
        match &self.views.get(target.0)?.observed {
            Some(Observed::Present(object)) => Some(&*object.uid).filter(|uid| !uid.is_empty()),
            _ => None,
        }
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

/// Returns whether a fence would change the target.
fn is_running(object: &TargetObject, target: &Target) -> bool {
    goal(Direction::Down, target, object).is_some()
}

/// Returns the first full period after this instant.
fn next_refresh(now: Time, age: Duration) -> Time {
    let past = now.as_micros().rem_euclid(micros(age));
    now.after(age).plus(-past)
}

impl Default for TargetView {
    fn default() -> Self {
        Self {
            observed: None,
            is_unsure: false,
            read_at: Time::MIN,
            refresh_at: Time::MIN,
            failures: 0,
            refresh: None,
        }
    }
}

impl TargetView {
    fn refresh_now(&mut self) {
        self.refresh_at = Time::MIN;
        self.refresh = None;
    }

    fn update(&mut self, call: &Call, reply: &Reply, now: Time) {
        match (reply, call, &mut self.observed) {
            (Reply::Read(observed), ..) => {
                self.observed = Some(observed.clone());
                self.is_unsure = false;
                self.read_at = now;
                self.refresh_at = next_refresh(now, REFRESH_INTERVAL);
                self.failures = 0;
            }
            (Reply::Written(version), call, Some(Observed::Present(object))) => {
                object.version = version.clone();
                self.is_unsure = false;
                match call {
                    Call::WriteRecord(write) => object.mark(write.setting()),
                    Call::Fence(write) => object.setting = write.setting(),
                    Call::Restore(write) => object.setting = write.setting(),
                    Call::DropMarker(_) => object.marked = false,
                    Call::Read => {}
                }
            }
            // Refreshes that keep failing must not crowd out those of other clusters.
            (_, Call::Read, _) => {
                let pause = RETRY.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS));
                self.refresh_at = now.after(pause.min(REFRESH_INTERVAL));
                self.failures = self.failures.saturating_add(1);
            }
            // The result of a failed write is unknown until the next refresh.
            _ => {
                self.is_unsure = true;
                self.refresh_at = now.after(RETRY);
            }
        }
    }
}
