//! One way through all targets of a cluster, level by level.

use std::sync::Arc;
use std::time::Duration;

use super::step::{Call, Reply, Step, TargetId};
use super::work::{Direction, Outcome, Work};
use crate::{Target, Time};

/// A flow from its start to its end. It never looks back: what it finds on the targets is all it
/// rests on, so a new flow continues where an old one was cut.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: u64,
    pub(super) direction: Direction,
    targets: Arc<[Target]>,
    works: Vec<Work>,
    haste: Haste,
}

/// How the deadline bears on the order of the levels, on the way down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Haste {
    /// The deadline; `None`: every one was missed already, or none is known.
    pub(super) deadline: Option<Time>,
    /// How long before it the order ends; zero: never.
    pub(super) reserve: Duration,
}

impl Haste {
    /// From when on all levels run at once.
    fn from(&self) -> Time {
        match self.deadline {
            _ if self.reserve.is_zero() => Time::MAX,
            None => Time::MIN,
            Some(deadline) => deadline.before(self.reserve),
        }
    }
}

impl Flow {
    pub(super) fn new(
        id: u64,
        direction: Direction,
        targets: &Arc<[Target]>,
        haste: Haste,
    ) -> Self {
        let works = targets.iter().map(|_| Work::new(direction)).collect();
        Self {
            id,
            direction,
            targets: Arc::clone(targets),
            works,
            haste,
        }
    }

    pub(super) fn set_haste(&mut self, haste: Haste) {
        self.haste = haste;
    }

    /// The calls to make now; also whether levels were started out of order because of the deadline.
    pub(super) fn poll(&mut self, now: Time) -> (Vec<Step>, bool) {
        let mut steps = Vec::new();
        let rushed = self.open_levels(now);
        for (index, work) in self.works.iter_mut().enumerate() {
            if let Some(call) = work.poll(now) {
                steps.push(Step {
                    target: TargetId(index),
                    call,
                    flow: self.id,
                });
            }
        }
        (steps, rushed)
    }

    /// Starts the targets whose turn has come; true if some were started before their turn.
    fn open_levels(&mut self, now: Time) -> bool {
        if self.has_failed() {
            return false;
        }
        let open = self.open_level(now);
        let in_haste = self.direction == Direction::Down && now >= self.haste.from();
        let mut rushed = false;
        for (work, target) in self.works.iter_mut().zip(&*self.targets) {
            let is_next = open.is_none_or(|open| work.rule(target).level <= open);
            if work.is_waiting() && (is_next || in_haste) {
                work.begin();
                rushed |= !is_next;
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
    pub(super) fn next_wake(&self) -> Option<Time> {
        let waiting = self.works.iter().any(Work::is_waiting);
        let haste = (self.direction == Direction::Down && waiting).then(|| self.haste.from());
        let overdue = self
            .works
            .iter()
            .zip(&*self.targets)
            .filter_map(|(work, target)| {
                if waiting && target.optional {
                    work.overdue_at()
                } else {
                    None
                }
            });
        self.works
            .iter()
            .filter_map(Work::next_wake)
            .chain(haste)
            .chain(overdue)
            .min()
    }

    /// A non-optional target failed for good: later levels do not start.
    fn has_failed(&self) -> bool {
        let mut works = self.works.iter().zip(&*self.targets);
        works.any(|(work, target)| work.outcome() == Some(Outcome::Failed) && !target.optional)
    }

    /// Nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        let has_failed = self.has_failed();
        self.works
            .iter()
            .all(|work| work.outcome().is_some() || (has_failed && work.is_waiting()))
    }

    /// How each target fared; `None` while it is under way or waiting.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Option<Outcome>> {
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
        let restarted_all = self.is_over()
            && self
                .outcomes()
                .all(|outcome| matches!(outcome, Some(Outcome::Scaled { .. } | Outcome::Missing)));
        let acknowledged = self.works.iter().filter_map(Work::scaled_at).min();
        acknowledged.filter(|_| restarted_all && self.direction == Direction::Up)
    }
}
