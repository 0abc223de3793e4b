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
pub use step::{Call, DropMarker, Reply, ScaleDown, ScaleUp, Step, TargetId, WriteRecord};
pub use work::{Direction, Outcome};

use crate::{Decision, Fence, Target, Time, Verdict};
use flow::{Flow, Haste};

/// Targets are read at least this often, to find what others did to them.
const SURVEY_AGE: Duration = Duration::from_mins(5);
/// A survey read or a restore that failed is repeated after this.
const RETRY: Duration = Duration::from_secs(1);
/// The number that stands for no flow.
const SURVEY: u64 = 0;

/// A cluster's targets and what is being done with them.
#[derive(Debug)]
pub struct Fencing {
    targets: Arc<[Target]>,
    reserve: Duration,
    views: Vec<View>,
    wanted: Option<Direction>,
    deadline: Option<Time>,
    flow: Option<Flow>,
    last_flow: u64,
    /// A flow that failed is not followed by the next one before this.
    retry_at: Time,
    released_at: Option<Time>,
}

/// What is known of a target outside any flow.
#[derive(Debug)]
struct View {
    sight: Option<Sight>,
    look_at: Time,
    looking: bool,
}

/// What is worth telling about a poll.
#[derive(Debug, Default)]
pub struct Polled {
    /// The calls to make now.
    pub steps: Vec<Step>,
    /// Levels were started out of order: the deadline beat the order.
    pub deadline_beat_order: bool,
}

/// A flow that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Its direction.
    pub direction: Direction,
    /// How each target fared, in the order of the configuration; `None`: it was never its turn.
    pub outcomes: Vec<Option<Outcome>>,
    /// Scale operations tried.
    pub attempts: u32,
}

impl Fencing {
    /// Targets that were never looked at. `reserve` is how long before the deadline the order of the
    /// levels ends; zero: never.
    pub fn new(targets: Vec<Target>, reserve: Duration) -> Self {
        let views = targets.iter().map(|_| View::default()).collect();
        Self {
            targets: targets.into(),
            reserve,
            views,
            wanted: None,
            deadline: None,
            flow: None,
            last_flow: SURVEY,
            retry_at: Time::MIN,
            released_at: None,
        }
    }

    /// Follows a decision. A flow against it is cut off; Hold starts nothing and cuts off all.
    pub fn steer(&mut self, decision: &Decision) {
        self.wanted = match decision.verdict {
            Verdict::Fence => Some(Direction::Down),
            Verdict::Release => Some(Direction::Up),
            Verdict::Hold => None,
        };
        if self.wanted == Some(Direction::Down) {
            self.retry_at = Time::MIN;
        }
        self.deadline = decision.deadline;
        match &mut self.flow {
            Some(flow) if Some(flow.direction) != self.wanted => self.flow = None,
            Some(flow) => {
                flow.set_haste(Haste {
                    deadline: decision.deadline,
                    reserve: self.reserve,
                });
            }
            None => {}
        }
    }

    /// Looks at all targets anew: after gaining leadership, where a predecessor may have fenced.
    pub fn survey(&mut self) {
        for view in &mut self.views {
            view.look_at = Time::MIN;
        }
    }

    /// The calls to make now.
    pub fn poll(&mut self, now: Time) -> Polled {
        let mut polled = Polled::default();
        if let Some(direction) = self.due_flow()
            && now >= self.retry_at
        {
            self.start_flow(direction);
        }
        if let Some(flow) = &mut self.flow {
            let (steps, rushed) = flow.poll(now);
            polled.steps = steps;
            polled.deadline_beat_order = rushed;
        } else {
            for (index, view) in self.views.iter_mut().enumerate() {
                if !view.looking && now >= view.look_at {
                    view.looking = true;
                    let target = TargetId(index);
                    polled.steps.push(Step {
                        target,
                        call: Call::Read,
                        flow: SURVEY,
                    });
                }
            }
        }
        polled
    }

    /// The flow that is wanted, needed and not under way.
    fn due_flow(&self) -> Option<Direction> {
        self.wanted
            .filter(|wanted| self.flow.is_none() && self.is_needed(*wanted))
    }

    fn start_flow(&mut self, direction: Direction) {
        self.last_flow += 1;
        let haste = Haste {
            deadline: self.deadline,
            reserve: self.reserve,
        };
        self.flow = Some(Flow::new(self.last_flow, direction, &self.targets, haste));
    }

    /// Whether a flow in this direction would find something to do, as far as the views tell.
    fn is_needed(&self, direction: Direction) -> bool {
        let mut views = self.views.iter().zip(&*self.targets);
        match direction {
            // What was never read may need it: the deadline does not wait for a survey.
            Direction::Down => views.any(|(view, target)| match &view.sight {
                None => true,
                Some(Sight::Missing) => !target.optional,
                Some(Sight::Present(present)) => {
                    !present.ignored && present.replicas > work::floor(target)
                }
            }),
            Direction::Up => views.any(|(view, _)| match &view.sight {
                Some(Sight::Present(present)) => present.marked,
                Some(Sight::Missing) | None => false,
            }),
        }
    }

    /// Takes over what came of a step; a report when that ended a flow.
    pub fn reply(&mut self, step: Step, reply: Reply, now: Time) -> Option<FlowReport> {
        self.note(&step, &reply, now);
        let flow = self.flow.as_mut().filter(|flow| flow.id == step.flow)?;
        flow.reply(step.target, step.call, reply, now);
        self.finish_flow(now)
    }

    fn finish_flow(&mut self, now: Time) -> Option<FlowReport> {
        let flow = self.flow.take_if(|flow| flow.is_over())?;
        if flow
            .outcomes()
            .any(|outcome| matches!(outcome, Some(Outcome::Failed)))
        {
            self.retry_at = now.after(RETRY);
        }
        self.released_at = flow.released_at().or(self.released_at);
        self.survey();
        Some(FlowReport {
            direction: flow.direction,
            outcomes: flow.outcomes().collect(),
            attempts: flow.attempts(),
        })
    }

    /// Keeps the views true, also by late answers to flows that are over.
    fn note(&mut self, step: &Step, reply: &Reply, now: Time) {
        let Some(view) = self.views.get_mut(step.target.0) else {
            return;
        };
        if step.flow == SURVEY {
            view.looking = false;
        }
        match (reply, &step.call, &mut view.sight) {
            (Reply::Seen(sight), ..) => {
                view.sight = Some(sight.clone());
                view.look_at = now.after(SURVEY_AGE);
            }
            (Reply::Written(version), call, Some(Sight::Present(present))) => {
                present.version = version.clone();
                match call {
                    Call::WriteRecord(write) => {
                        present.marked = true;
                        present.recorded = Recorded::Count(write.replicas());
                    }
                    Call::ScaleDown(scale) => present.replicas = scale.replicas(),
                    Call::ScaleUp(scale) => present.replicas = scale.replicas(),
                    Call::DropMarker(_) => present.marked = false,
                    Call::Read => {}
                }
            }
            // What became of a write that failed is not known until the next look.
            _ => view.look_at = now.after(RETRY),
        }
    }

    /// When there is something to do without an answer from outside.
    pub fn next_wake(&self) -> Option<Time> {
        match &self.flow {
            Some(flow) => flow.next_wake(),
            None if self.wanted.is_some_and(|wanted| self.is_needed(wanted)) => Some(Time::MIN),
            None => self
                .views
                .iter()
                .filter(|view| !view.looking)
                .map(|view| view.look_at)
                .min(),
        }
    }

    /// What the targets look like, for the judge.
    pub fn fence(&self) -> Fence {
        let mut fence = Fence::None;
        let mut is_full = true;
        for (view, target) in self.views.iter().zip(&*self.targets) {
            match &view.sight {
                None => return Fence::Unknown,
                Some(Sight::Present(present)) if !present.ignored => {
                    is_full &= present.replicas <= work::floor(target);
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

    /// When the controllers were last started again by us, all of them.
    pub fn released_at(&self) -> Option<Time> {
        self.released_at
    }

    /// What was last seen of each target.
    pub fn sights(&self) -> impl Iterator<Item = (&Target, Option<&Sight>)> {
        self.targets
            .iter()
            .zip(self.views.iter().map(|view| view.sight.as_ref()))
    }
}

impl Default for View {
    fn default() -> Self {
        Self {
            sight: None,
            look_at: Time::MIN,
            looking: false,
        }
    }
}
