//! One way through all targets of a cluster, level by level.

use std::sync::Arc;

use super::step::{Call, Origin, Reply, Step, TargetId};
use super::work::{Direction, TargetOutcome, Work};
use crate::{Target, Time};

/// A flow from its start to its end. It never looks back: what it finds on the targets is all it
/// rests on, so a new flow continues where an old one was cut.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: u64,
    pub(super) direction: Direction,
    targets: Arc<[Target]>,
    works: Vec<Work>,
}

impl Flow {
    pub(super) fn new(id: u64, direction: Direction, targets: &Arc<[Target]>) -> Self {
        let works = targets.iter().map(|_| Work::new(direction)).collect();
        Self {
            id,
            direction,
            targets: Arc::clone(targets),
            works,
        }
    }

    /// Whether this is what is wanted; a flow that is not rests.
    pub(super) fn goes(&self, wanted: Option<Direction>) -> bool {
        wanted == Some(self.direction)
    }

    /// The calls to make now, and the targets whose turn has come early. From `rush_at` on the levels
    /// do not wait for each other.
    pub(super) fn poll(&mut self, now: Time, rush_at: Option<Time>) -> (Vec<Step>, Vec<TargetId>) {
        let in_haste = rush_at.is_some_and(|at| now >= at);
        let rushed = self.open_levels(now, in_haste);
        let (origin, goes_down) = (Origin::Flow(self.id), self.direction == Direction::Down);
        let works = self.works.iter_mut().zip(&*self.targets).enumerate();
        let step = |(index, (work, target)): (usize, (&mut Work, &Target))| {
            work.poll(now).map(|(call, purpose)| Step {
                target: TargetId(index),
                call,
                purpose,
                is_pressing: goes_down && target.races(),
                origin,
            })
        };
        (works.filter_map(step).collect(), rushed)
    }

    /// Starts the targets whose turn has come; names those that were started before it.
    fn open_levels(&mut self, now: Time, in_haste: bool) -> Vec<TargetId> {
        let mut rushed = Vec::new();
        let open = self.open_level(now);
        for (index, (work, target)) in self.works.iter_mut().zip(&*self.targets).enumerate() {
            let is_next = open.is_none_or(|open| work.rule(target).level <= open);
            if work.is_waiting() && (is_next || in_haste) {
                work.begin();
                if !is_next {
                    rushed.push(TargetId(index));
                }
            }
        }
        rushed
    }

    /// The lowest level that is not done yet.
    fn open_level(&self, now: Time) -> Option<u32> {
        let holds_up = |(work, target): &(&Work, &Target)| {
            work.outcome().is_none() && !(target.optional && work.is_overdue(now))
        };
        self.works
            .iter()
            .zip(&*self.targets)
            .filter(holds_up)
            .map(|(work, target)| work.rule(target).level)
            .min()
    }

    pub(super) fn reply(&mut self, target: TargetId, call: Call, reply: Reply, now: Time) {
        if let (Some(work), Some(target)) =
            (self.works.get_mut(target.0), self.targets.get(target.0))
        {
            work.reply(target, call, reply, now);
        }
    }

    /// When the flow has something to do without an answer from outside.
    pub(super) fn next_wake(&self, now: Time, rush_at: Option<Time>) -> Option<Time> {
        let works = self.works.iter().filter_map(Work::next_wake);
        let waiting = self.works.iter().any(Work::is_waiting);
        let rush = rush_at.filter(|_| waiting);
        // An optional target stops holding up the next level once it is overdue.
        let overdue = self.works.iter().zip(&*self.targets);
        let overdue = overdue.filter_map(|(work, target)| {
            let at = work.overdue_at().filter(|at| *at > now);
            at.filter(|_| waiting && target.optional)
        });
        works.chain(rush).chain(overdue).min()
    }

    /// Whether nothing is left to do with this target.
    pub(super) fn is_done(&self, target: TargetId) -> bool {
        self.works
            .get(target.0)
            .is_some_and(|work| work.outcome().is_some())
    }

    /// Whether conflicts ended the last try for this target.
    pub(super) fn is_contested(&self, target: TargetId) -> bool {
        self.works.get(target.0).is_some_and(Work::is_contested)
    }

    /// Takes a target up again that somebody has changed since it was done.
    pub(super) fn reopen(&mut self, target: TargetId) {
        if let Some(work) = self.works.get_mut(target.0) {
            work.reopen();
        }
    }

    /// A non-optional target failed for good: later levels do not start.
    fn has_failed(&self) -> bool {
        let mut works = self.works.iter().zip(&*self.targets);
        works
            .any(|(work, target)| work.outcome() == Some(TargetOutcome::Failed) && !target.optional)
    }

    /// Nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        let has_failed = self.has_failed();
        self.works
            .iter()
            .all(|work| work.outcome().is_some() || (has_failed && work.is_waiting()))
    }

    /// How each target fared; `None` while it is under way or waiting.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Option<TargetOutcome>> {
        self.works.iter().map(Work::outcome)
    }

    /// Scale operations tried so far, over all targets.
    pub(super) fn attempts(&self) -> u32 {
        self.works.iter().map(Work::attempts).sum()
    }

    /// When this flow brought the controllers back: the first acknowledged scale call of a flow that
    /// is over and scaled every target there is. Where one was running all along, nothing started
    /// afresh.
    pub(super) fn released_at(&self) -> Option<Time> {
        if self.direction == Direction::Down {
            return None;
        }
        let mut first = None;
        for outcome in self.outcomes() {
            match outcome? {
                TargetOutcome::Scaled { at, .. } => first = Some(at.min(first.unwrap_or(at))),
                TargetOutcome::Missing => {}
                _ => return None,
            }
        }
        first
    }
}
