//! A flow: fencing or restoring all targets of a cluster, level by level.

use std::sync::Arc;

use super::direction::Direction;
use super::step::{Call, Origin, Reply, Step, TargetId};
use super::target_flow::{AppliedSetting, TargetFlow, TargetOutcome};
use super::target_object::Observed;
use super::target_view::TargetView;
use crate::Time;
use crate::prober::Target;

/// A flow from its start to its end. It rests only on what it finds on the targets, so that a new
/// flow continues where a cancelled one stopped.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: u64,
    pub(super) direction: Direction,
    targets: Arc<[Target]>,
    flows: Vec<TargetFlow>,
}

impl Flow {
    pub(super) fn new(id: u64, direction: Direction, targets: &Arc<[Target]>) -> Self {
        let flows = targets.iter().map(|_| TargetFlow::new(direction)).collect();
        Self {
            id,
            direction,
            targets: Arc::clone(targets),
            flows,
        }
    }

    /// Creates a flow of a standby: it fences these targets and leaves the others to the leader.
    pub(super) fn standby(id: u64, targets: &Arc<[Target]>, fences: &[bool]) -> Self {
        let mut flow = Self::new(id, Direction::Down, targets);
        for (part, fences) in flow.flows.iter_mut().zip(fences) {
            if !fences {
                part.leave_to_leader();
            }
        }
        flow
    }

    /// Leaves a target to the leader. Returns false if this flow has fenced it already.
    pub(super) fn leave_to_leader(&mut self, target: TargetId) -> bool {
        let flow = self.flows.get_mut(target.0);
        flow.is_some_and(TargetFlow::leave_to_leader)
    }

    pub(super) fn is_in_flight(&self, target: TargetId) -> bool {
        let flow = self.flows.get(target.0);
        flow.is_some_and(TargetFlow::is_in_flight)
    }

    /// Returns whether the flow goes in the wanted direction. Otherwise it is suspended.
    pub(super) fn goes(&self, wanted: Option<Direction>) -> bool {
        wanted == Some(self.direction)
    }

    /// Returns the calls to make now, and the targets that were started before their level. From
    /// `parallel_from` on the levels do not wait for each other.
    pub(super) fn poll(
        &mut self,
        now: Time,
        parallel_from: Option<Time>,
        views: &[TargetView],
    ) -> (Vec<Step>, Vec<TargetId>) {
        let is_parallel = parallel_from.is_some_and(|at| now >= at);
        let started_early = self.open_levels(now, is_parallel);
        let (origin, goes_down) = (Origin::Flow(self.id), self.direction == Direction::Down);
        let direction = self.direction;
        let flows = self.flows.iter_mut().zip(&*self.targets).enumerate();
        let step = |(index, (flow, target)): (usize, (&mut TargetFlow, &Target))| {
            let view = views
                .get(index)
                .filter(|view| view.contradicted_at.is_none())?;
            let known = view.known(direction, target);
            let (call, purpose) = flow.poll(target, known, now)?;
            Some(Step {
                target: TargetId(index),
                time_limit: flow.time_limit(target, &call, now),
                call,
                purpose,
                is_deadline_target: goes_down && target.is_deadline_target,
                origin,
            })
        };
        (flows.filter_map(step).collect(), started_early)
    }

    /// Starts the targets of the open level, or of all levels. Returns those that were started
    /// early.
    fn open_levels(&mut self, now: Time, is_parallel: bool) -> Vec<TargetId> {
        let mut started_early = Vec::new();
        let (stopped, written) = (self.open_level(now, true), self.open_level(now, false));
        let goes_down = self.direction == Direction::Down;
        for (index, (flow, target)) in self.flows.iter_mut().zip(&*self.targets).enumerate() {
            // The deadline does not wait for the pods of earlier levels.
            let is_urgent = goes_down && target.is_deadline_target;
            let open = if is_urgent { written } else { stopped };
            let is_next = open.is_none_or(|open| flow.rule(target).level <= open);
            if flow.is_waiting() && (is_next || is_parallel) {
                flow.begin();
                if !is_next {
                    started_early.push(TargetId(index));
                }
            }
        }
        started_early
    }

    /// Returns the lowest level that is not finished. Without `awaits_pods`, a level is finished
    /// once all its writes are acknowledged.
    fn open_level(&self, now: Time, awaits_pods: bool) -> Option<u32> {
        let delays = |(flow, target): &(&TargetFlow, &Target)| {
            flow.outcome().is_none()
                && !(target.optional && flow.is_overdue(now))
                && (awaits_pods || !flow.is_settling())
        };
        self.flows
            .iter()
            .zip(&*self.targets)
            .filter(delays)
            .map(|(flow, target)| flow.rule(target).level)
            .min()
    }

    pub(super) fn reply(&mut self, target: TargetId, call: Call, reply: Reply, now: Time) {
        if let (Some(flow), Some(target)) =
            (self.flows.get_mut(target.0), self.targets.get(target.0))
        {
            let is_fence = matches!(call, Call::Fence(_) | Call::WriteRecord(_));
            let can_wait = is_fence && !has_deadline(target, &self.targets);
            let reply = match reply {
                // A fence that the deadline is not about waits for the webhook.
                Reply::WebhookFailed if can_wait => Reply::Rejected,
                reply => reply,
            };
            flow.reply(target, call, reply, now);
        }
    }

    /// Takes in a state that a watch has shown.
    pub(super) fn observe(&mut self, target: TargetId, observed: &Observed, now: Time) {
        if let (Some(flow), Some(target)) =
            (self.flows.get_mut(target.0), self.targets.get(target.0))
        {
            flow.observe(target, observed, now);
        }
    }

    /// Reads the readiness of a target without a watch from now on.
    pub(super) fn watch_lost(&mut self, target: TargetId, now: Time) {
        if let Some(flow) = self.flows.get_mut(target.0) {
            flow.watch_lost(now);
        }
    }

    /// Returns the setting that was applied to a target, once.
    pub(super) fn take_applied(&mut self, target: TargetId) -> Option<AppliedSetting> {
        self.flows.get_mut(target.0)?.take_applied()
    }

    /// Returns the instant at which the flow has something to do without a reply.
    pub(super) fn next_wake(
        &self,
        now: Time,
        parallel_from: Option<Time>,
        views: &[TargetView],
    ) -> Option<Time> {
        let flows = self.flows.iter().zip(views);
        let flows = flows.filter(|(_, view)| view.contradicted_at.is_none());
        let flows = flows.filter_map(|(flow, _)| flow.next_wake());
        let waiting = self.flows.iter().any(TargetFlow::is_waiting);
        let rush = parallel_from.filter(|_| waiting);
        // An optional target delays the next level only until it is overdue.
        let overdue = self.flows.iter().zip(&*self.targets);
        let overdue = overdue.filter_map(|(flow, target)| {
            let at = flow.overdue_at().filter(|at| *at > now);
            at.filter(|_| waiting && target.optional)
        });
        flows.chain(rush).chain(overdue).min()
    }

    /// Returns whether the target is finished.
    pub(super) fn is_done(&self, target: TargetId) -> bool {
        self.flows
            .get(target.0)
            .is_some_and(|flow| flow.outcome().is_some())
    }

    /// Returns whether conflicts ended the last attempt on this target.
    pub(super) fn is_contested(&self, target: TargetId) -> bool {
        self.flows
            .get(target.0)
            .is_some_and(TargetFlow::is_contested)
    }

    /// Takes a finished target up again.
    pub(super) fn reopen(&mut self, target: TargetId) {
        if let Some(flow) = self.flows.get_mut(target.0) {
            flow.reopen();
        }
    }

    /// Returns whether a target failed that is not optional. Later levels do not start then.
    fn has_failed(&self) -> bool {
        let mut flows = self.flows.iter().zip(&*self.targets);
        flows
            .any(|(flow, target)| flow.outcome() == Some(TargetOutcome::Failed) && !target.optional)
    }

    /// Returns whether the flow has ended.
    pub(super) fn is_over(&self) -> bool {
        let has_failed = self.has_failed();
        self.flows
            .iter()
            .all(|flow| flow.outcome().is_some() || (has_failed && flow.is_waiting()))
    }

    /// Returns the outcome of each target; `None` while it is under way or waiting.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Option<TargetOutcome>> {
        self.flows.iter().map(TargetFlow::outcome)
    }

    /// Returns the number of operations attempted so far, over all targets.
    pub(super) fn attempts(&self) -> u32 {
        self.flows.iter().map(TargetFlow::attempts).sum()
    }

    /// Returns the instant at which this flow restored the controllers: the first acknowledged
    /// write of a finished flow that restored every existing target. If one of them was running all
    /// along, no controller started without a memory.
    pub(super) fn released_at(&self) -> Option<Time> {
        if self.direction == Direction::Down {
            return None;
        }
        let mut first = None;
        for outcome in self.outcomes() {
            match outcome? {
                TargetOutcome::Applied { at, .. } => first = Some(at.min(first.unwrap_or(at))),
                TargetOutcome::Missing => {}
                _ => return None,
            }
        }
        first
    }
}

/// Returns whether the deadline is about this target: all of them, unless the configuration names
/// some.
pub(super) fn has_deadline(target: &Target, targets: &[Target]) -> bool {
    target.is_deadline_target || !targets.iter().any(|target| target.is_deadline_target)
}
