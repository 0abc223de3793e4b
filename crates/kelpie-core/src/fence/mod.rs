//! Fencing: stopping a cluster's controllers and restoring them exactly.
//!
//! [`Fencing`] owns a cluster's targets. It is steered by decisions, hands out [`Step`]s, takes
//! their [`Reply`]s, and says when it wants to be polled again. What it knows of the targets is what
//! it has read; nothing is remembered that a restart would lose.

mod flow;
mod sight;
mod step;
mod work;

use std::sync::Arc;
use std::time::Duration;

pub use sight::{
    IGNORE_ANNOTATION, MARKER_ANNOTATION, Present, REPLICAS_ANNOTATION, Recorded, Sight, Version,
};
pub use step::{Call, DropMarker, Purpose, Reply, ScaleDown, ScaleUp, Step, TargetId, WriteRecord};
pub use work::{Direction, TargetOutcome, destination};

use serde::Serialize;

use crate::time::micros;
use crate::{Decision, Fence, Target, Time, Verdict};
use flow::Flow;
use step::Origin;

/// Targets are read at least this often, to find what others did to them. All clusters look at the
/// same instants, so that one list can answer them all.
const SURVEY_AGE: Duration = Duration::from_mins(5);
/// While a fence is wanted they are read so often: what somebody starts against it must be stopped before
/// it takes a node for dead, and that takes a new process the whole grace period.
const FENCED_AGE: Duration = Duration::from_secs(10);
/// A look or a restore that failed is repeated after this.
const RETRY: Duration = Duration::from_secs(1);
/// Looks that go on failing are repeated ever more slowly, up to the age of a survey.
const MOST_DOUBLINGS: u32 = 9;

/// A cluster's targets and what is being done with them.
///
/// A step that was handed out must come back through [`reply`](Self::reply), whatever became of it.
#[derive(Debug)]
pub struct Fencing {
    targets: Arc<[Target]>,
    views: Vec<View>,
    wanted: Option<Direction>,
    rush_at: Option<Time>,
    flow: Option<Flow>,
    /// Flows and looks are numbered, so that late answers are told from those that count.
    last_number: u64,
    /// A flow that failed is not followed by the next one before this.
    retry_at: Time,
    released_at: Option<Time>,
}

/// What is known of a target.
#[derive(Debug)]
struct View {
    sight: Option<Sight>,
    /// Something was written since, and nobody knows what came of it.
    is_unsure: bool,
    seen_at: Time,
    look_at: Time,
    /// Looks that failed in a row.
    failures: u32,
    /// The look under way. Anything newer that is learnt about the target outdates it.
    look: Option<u64>,
}

/// What came of a poll.
#[derive(Debug, Default)]
pub struct Polled {
    /// The calls to make now.
    pub steps: Vec<Step>,
    /// The targets whose turn came early: the deadline beat the order of the levels.
    pub rushed: Vec<TargetId>,
}

/// A flow that has ended, or was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowReport {
    /// Its direction.
    pub direction: Direction,
    /// How each target fared, in the order of the configuration; `None`: it was not done with.
    pub outcomes: Vec<Option<TargetOutcome>>,
    /// Scale operations tried.
    pub attempts: u32,
}

impl Fencing {
    /// Targets that were never looked at.
    pub fn new(targets: Arc<[Target]>) -> Self {
        let views = targets.iter().map(|_| View::default()).collect();
        Self {
            targets,
            views,
            wanted: None,
            rush_at: None,
            flow: None,
            last_number: 0,
            retry_at: Time::MIN,
            released_at: None,
        }
    }

    /// Follows a decision. Hold lets a flow rest: nothing is written until a verdict takes it up again.
    /// The opposite verdict cuts it off, and the report says how far it came.
    pub fn steer(&mut self, decision: &Decision) -> Option<FlowReport> {
        self.wanted = match decision.verdict {
            Verdict::Fence => Some(Direction::Down),
            Verdict::Release => Some(Direction::Up),
            Verdict::Hold => None,
        };
        if self.wanted == Some(Direction::Down) {
            self.retry_at = Time::MIN;
        }
        self.rush_at = decision.rush_at;
        let wanted = self.wanted?;
        let is_against = self.flow.as_ref()?.direction != wanted;
        is_against.then(|| self.cut_off()).flatten()
    }

    /// Stops acting at once, as on losing leadership. Looking goes on.
    pub fn stand_down(&mut self) -> Option<FlowReport> {
        self.wanted = None;
        self.cut_off()
    }

    fn cut_off(&mut self) -> Option<FlowReport> {
        self.flow.take().map(|flow| report(&flow))
    }

    /// Looks at all targets anew.
    pub fn survey(&mut self) {
        for view in &mut self.views {
            view.look_again();
        }
    }

    /// Forgets what was seen and looks at all targets anew: on gaining leadership. A predecessor may have
    /// fenced or released since, and what was never read may need a fence.
    pub fn forget(&mut self) {
        for view in &mut self.views {
            *view = View::default();
        }
    }

    /// The calls to make now.
    pub fn poll(&mut self, now: Time) -> Polled {
        if let Some(direction) = self.due_flow()
            && now >= self.retry_at
        {
            let number = self.next_number();
            self.flow = Some(Flow::new(number, direction, &self.targets));
        }
        let mut polled = Polled::default();
        if let Some(flow) = self.flow.as_mut().filter(|flow| flow.goes(self.wanted)) {
            (polled.steps, polled.rushed) = flow.poll(now, self.rush_at);
        }
        for index in 0..self.views.len() {
            let target = TargetId(index);
            if self.look_at(target).is_some_and(|at| now >= at) {
                let number = self.next_number();
                self.views[index].look = Some(number);
                polled.steps.push(Step {
                    target,
                    call: Call::Read,
                    origin: Origin::Look(number),
                    purpose: Purpose::Survey,
                    is_pressing: false,
                });
            }
        }
        polled
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The flow, unless it rests.
    fn running(&self) -> Option<&Flow> {
        self.flow.as_ref().filter(|flow| flow.goes(self.wanted))
    }

    /// When a target is to be looked at. What a running flow is busy with, it reads itself.
    fn look_at(&self, target: TargetId) -> Option<Time> {
        let is_busy = self.running().is_some_and(|flow| !flow.is_done(target));
        let view = self.views.get(target.0)?;
        let is_watched = self.wanted == Some(Direction::Down) && view.failures == 0;
        let watched_at = next_survey(view.seen_at, FENCED_AGE);
        let look_at = if is_watched {
            view.look_at.min(watched_at)
        } else {
            view.look_at
        };
        (view.look.is_none() && !is_busy).then_some(look_at)
    }

    /// The flow that is wanted, needed and not there.
    fn due_flow(&self) -> Option<Direction> {
        self.wanted
            .filter(|wanted| self.flow.is_none() && self.is_needed(*wanted))
    }

    /// Whether a flow in this direction would find something to do, as far as the views tell.
    fn is_needed(&self, direction: Direction) -> bool {
        let mut views = self.views.iter().zip(&*self.targets);
        match direction {
            // What was never read, or not since a write whose answer is missing, may need it: the deadline
            // does not wait for a survey.
            Direction::Down => views.any(|(view, target)| match &view.sight {
                None => true,
                Some(_) if view.is_unsure => true,
                Some(Sight::Missing) => !target.optional,
                Some(Sight::Present(present)) => is_running(present, target),
            }),
            Direction::Up => views.any(|(view, _)| match &view.sight {
                Some(Sight::Present(present)) => present.marked,
                Some(Sight::Missing) | None => false,
            }),
        }
    }

    /// Takes over what came of a step; a report when that ended a flow.
    pub fn reply(&mut self, step: Step, reply: Reply, now: Time) -> Option<FlowReport> {
        let view = self.views.get_mut(step.target.0)?;
        match step.origin {
            Origin::Look(number) if view.look == Some(number) => {
                view.look = None;
                view.note(&step.call, &reply, now);
                self.reopen_if_undone(step.target);
                None
            }
            Origin::Flow(id) if self.flow.as_ref().is_some_and(|flow| flow.id == id) => {
                view.look = None;
                view.note(&step.call, &reply, now);
                let flow = self.flow.as_mut()?;
                flow.reply(step.target, step.call, reply, now);
                self.finish_flow(now)
            }
            // Outdated: a look that was overtaken, which tells nothing, or a call of a flow that was
            // cut off, which may have changed something.
            Origin::Look(_) => None,
            Origin::Flow(_) => {
                view.is_unsure |= step.call.is_write();
                view.look_again();
                None
            }
        }
    }

    /// A flow may be held up for long by one target; what it has done with the others must last.
    fn reopen_if_undone(&mut self, target: TargetId) {
        let (Some(flow), Some(view), Some(rule)) = (
            self.flow.as_mut(),
            self.views.get(target.0),
            self.targets.get(target.0),
        ) else {
            return;
        };
        let is_undone = matches!(&view.sight, Some(Sight::Present(p)) if is_running(p, rule));
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
        self.survey();
        Some(report(&flow))
    }

    /// When there is something to do without an answer from outside.
    pub fn next_wake(&self, now: Time) -> Option<Time> {
        let flow = self
            .running()
            .and_then(|flow| flow.next_wake(now, self.rush_at));
        let due = self.due_flow().map(|_| self.retry_at);
        let looks = (0..self.views.len()).filter_map(|index| self.look_at(TargetId(index)));
        looks.chain(flow).chain(due).min()
    }

    /// Whether others kept changing a target for so long that its last write was given up for now.
    pub fn is_contested(&self, target: TargetId) -> bool {
        let flow = self.flow.as_ref();
        flow.is_some_and(|flow| flow.is_contested(target))
    }

    /// What the targets look like, for the judge.
    pub fn fence(&self) -> Fence {
        let mut fence = Fence::None;
        let mut is_full = true;
        for (view, target) in self.views.iter().zip(&*self.targets) {
            match &view.sight {
                None => return Fence::Unknown,
                Some(Sight::Present(present)) if !present.ignored => {
                    is_full &= !is_running(present, target);
                    if present.marked {
                        fence = Fence::Partial;
                    }
                }
                Some(_) => {}
            }
        }
        if fence == Fence::Partial && is_full {
            Fence::Full
        } else {
            fence
        }
    }

    /// Whether something is not fenced that could be, or was never read.
    pub fn is_open(&self) -> bool {
        self.is_needed(Direction::Down)
    }

    /// When the controllers were last started again by us, all of them.
    pub fn released_at(&self) -> Option<Time> {
        self.released_at
    }

    /// The uid of a target that was seen.
    pub fn uid(&self, target: TargetId) -> Option<&str> {
        match &self.views.get(target.0)?.sight {
            Some(Sight::Present(present)) => Some(&*present.uid).filter(|uid| !uid.is_empty()),
            _ => None,
        }
    }

    /// What was last seen of each target.
    pub fn sights(&self) -> impl Iterator<Item = (&Target, Option<&Sight>)> {
        self.targets
            .iter()
            .zip(self.views.iter().map(|view| view.sight.as_ref()))
    }
}

fn report(flow: &Flow) -> FlowReport {
    FlowReport {
        direction: flow.direction,
        outcomes: flow.outcomes().collect(),
        attempts: flow.attempts(),
    }
}

/// Whether a target that is to be fenced is not.
fn is_running(present: &Present, target: &Target) -> bool {
    destination(Direction::Down, target, present).is_some()
}

/// The first full period after this instant.
fn next_survey(now: Time, age: Duration) -> Time {
    let past = now.as_micros().rem_euclid(micros(age));
    now.after(age).plus(-past)
}

impl Default for View {
    fn default() -> Self {
        Self {
            sight: None,
            is_unsure: false,
            seen_at: Time::MIN,
            look_at: Time::MIN,
            failures: 0,
            look: None,
        }
    }
}

impl View {
    fn look_again(&mut self) {
        self.look_at = Time::MIN;
        self.look = None;
    }

    fn note(&mut self, call: &Call, reply: &Reply, now: Time) {
        match (reply, call, &mut self.sight) {
            (Reply::Seen(sight), ..) => {
                self.sight = Some(sight.clone());
                self.is_unsure = false;
                self.seen_at = now;
                self.look_at = next_survey(now, SURVEY_AGE);
                self.failures = 0;
            }
            (Reply::Written(version), call, Some(Sight::Present(present))) => {
                present.version = version.clone();
                self.is_unsure = false;
                match call {
                    Call::WriteRecord(write) => present.mark(write.replicas()),
                    Call::ScaleDown(scale) => present.replicas = scale.replicas(),
                    Call::ScaleUp(scale) => present.replicas = scale.replicas(),
                    Call::DropMarker(_) => present.marked = false,
                    Call::Read => {}
                }
            }
            // A look that fails for long must not crowd out those of other clusters.
            (_, Call::Read, _) => {
                let pause = RETRY.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS));
                self.look_at = now.after(pause.min(SURVEY_AGE));
                self.failures = self.failures.saturating_add(1);
            }
            // What became of a write that failed is not known until the next look.
            _ => {
                self.is_unsure = true;
                self.look_at = now.after(RETRY);
            }
        }
    }
}
