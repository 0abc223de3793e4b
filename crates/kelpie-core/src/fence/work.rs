//! One target's way through a flow.

use std::time::Duration;

use serde::Serialize;

use super::sight::{Present, Recorded, Sight};
use super::step::{
    Call, DropMarker, Marked, Purpose, Record, Reply, ScaleDown, ScaleUp, WriteRecord,
};
use crate::{ScaleRule, Target, Time};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const SLOWEST_RETRY: Duration = Duration::from_secs(1);
const READINESS_PATIENCE: Duration = Duration::from_secs(5);
const READINESS_POLL: Duration = Duration::from_millis(500);
/// Conflicts are repeated at once, but not forever: a fight over a target must not become a busy loop.
const CONFLICTS_AT_ONCE: u32 = 10;

/// Which way a flow scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// Making the fence.
    Down,
    /// Restoring.
    Up,
}

/// How a target's part of a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetOutcome {
    /// It was scaled.
    #[serde(rename_all = "camelCase")]
    Scaled {
        /// To this count.
        replicas: u32,
        /// When the call was acknowledged.
        at: Time,
        /// Its pods did not follow within the patience of a flow.
        unready: bool,
        /// The record was corrupt, so 1 was used.
        corrupt_record: bool,
    },
    /// It was where it should be.
    AlreadyThere,
    /// It is optional and does not exist.
    Missing,
    /// Its owner wants it left alone.
    Ignored,
    /// It does not carry our marker, so it is not ours to restore.
    NotOurs,
    /// It could not be scaled.
    Failed,
}

/// One target's part of a flow.
#[derive(Debug)]
pub(super) struct Work {
    direction: Direction,
    state: State,
    delay_is_over: bool,
    /// When its calls have been failing for longer than they may take.
    overdue_at: Option<Time>,
    failures: u32,
    conflicts: u32,
    /// Conflicts ended the last try.
    is_contested: bool,
    /// What the target looked like to the last write.
    basis: Option<Present>,
    corrupt_record: bool,
    scaled: Option<Scaled>,
    settle_until: Option<Time>,
    attempts: u32,
}

#[derive(Clone, Copy, Debug)]
struct Scaled {
    at: Time,
    replicas: u32,
}

#[derive(Debug)]
enum State {
    /// Its level has not begun.
    Waiting,
    /// To be made now.
    Due(Call, Purpose),
    /// Handed out.
    UnderWay,
    /// To be read again at this instant: after the initial delay, a failure, or to see its pods
    /// follow.
    ReadAt(Time),
    Done(TargetOutcome),
}

impl Work {
    pub(super) fn new(direction: Direction) -> Self {
        Self {
            direction,
            state: State::Waiting,
            delay_is_over: false,
            overdue_at: None,
            failures: 0,
            conflicts: 0,
            is_contested: false,
            basis: None,
            corrupt_record: false,
            scaled: None,
            settle_until: None,
            attempts: 0,
        }
    }

    pub(super) fn rule<'t>(&self, target: &'t Target) -> &'t ScaleRule {
        match self.direction {
            Direction::Down => &target.down,
            Direction::Up => &target.up,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Somebody undid what was done: once more, without the delay.
    pub(super) fn reopen(&mut self) {
        *self = Self {
            delay_is_over: true,
            attempts: self.attempts,
            ..Self::new(self.direction)
        };
        self.begin();
    }

    pub(super) fn begin(&mut self) {
        let purpose = if self.settle_until.is_some() {
            Purpose::Readiness
        } else {
            Purpose::Flow
        };
        self.state = State::Due(Call::Read, purpose);
    }

    pub(super) fn outcome(&self) -> Option<TargetOutcome> {
        match self.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Scale operations tried so far.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Its calls have failed for longer than they may take.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.overdue_at().is_some_and(|at| now >= at)
    }

    /// When its calls will have been failing for longer than they may take.
    pub(super) fn overdue_at(&self) -> Option<Time> {
        self.overdue_at
            .filter(|_| self.failures > 0 && self.outcome().is_none())
    }

    /// When it has something to do without an answer from outside.
    pub(super) fn next_wake(&self) -> Option<Time> {
        match self.state {
            State::ReadAt(at) => Some(at),
            State::Due(..) => Some(Time::MIN),
            State::Waiting | State::UnderWay | State::Done(_) => None,
        }
    }

    /// Conflicts ended its last try.
    pub(super) fn is_contested(&self) -> bool {
        self.is_contested
    }

    /// The call to make now, if any, and what it is for.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Call, Purpose)> {
        if matches!(self.state, State::ReadAt(at) if now >= at) {
            self.begin();
        }
        match std::mem::replace(&mut self.state, State::UnderWay) {
            State::Due(call, purpose) => Some((call, purpose)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Takes over the answer to a call.
    pub(super) fn reply(&mut self, target: &Target, call: Call, reply: Reply, now: Time) {
        match (call, reply) {
            (Call::Read, Reply::Seen(Sight::Missing)) if target.optional => {
                self.state = State::Done(TargetOutcome::Missing);
            }
            (Call::Read, Reply::Seen(Sight::Present(present))) => match self.direction {
                _ if present.ignored => self.leave_alone(&present),
                Direction::Down => self.go_down(target, present, now),
                Direction::Up => self.go_up(target, present, now),
            },
            (Call::WriteRecord(write), Reply::Written(version)) => {
                if let Some(basis) = &mut self.basis {
                    basis.mark(write.replicas());
                }
                let record = write.acknowledged(version);
                let scale = Call::ScaleDown(ScaleDown::new(record, floor(target)));
                self.state = State::Due(scale, Purpose::Flow);
            }
            (Call::ScaleDown(scale), Reply::Written(_)) => {
                self.scaled = Some(Scaled {
                    at: now,
                    replicas: scale.replicas(),
                });
                self.settle(now);
            }
            (Call::ScaleUp(scale), Reply::Written(version)) => {
                self.scaled = Some(Scaled {
                    at: now,
                    replicas: scale.replicas(),
                });
                let drop = Call::DropMarker(DropMarker::after(&scale, version));
                self.state = State::Due(drop, Purpose::Flow);
            }
            (Call::DropMarker(_), Reply::Written(_)) => match self.scaled {
                Some(_) => self.settle(now),
                None if self.basis.as_ref().is_some_and(|basis| basis.ignored) => {
                    self.state = State::Done(TargetOutcome::Ignored);
                }
                None => self.state = State::Done(TargetOutcome::AlreadyThere),
            },
            (_, Reply::Conflict) if self.conflicts < CONFLICTS_AT_ONCE => {
                self.conflicts += 1;
                self.begin();
            }
            (_, reply) => {
                self.is_contested = reply == Reply::Conflict;
                self.fail(target, now);
            }
        }
    }

    fn go_down(&mut self, target: &Target, present: Present, now: Time) {
        let Some(replicas) = destination(Direction::Down, target, &present) else {
            if present.ready <= floor(target) {
                self.finish(false);
            } else {
                self.settle(now);
            }
            return;
        };
        if self.must_wait(target, now) {
            return;
        }
        let call = match Record::found(&present) {
            Some(record) => Call::ScaleDown(ScaleDown::new(record, replicas)),
            None => Call::WriteRecord(WriteRecord::new(&present)),
        };
        self.attempt(call, target, present, now);
    }

    fn go_up(&mut self, target: &Target, present: Present, now: Time) {
        let Some(marked) = Marked::found(&present) else {
            match self.scaled {
                None => self.state = State::Done(TargetOutcome::NotOurs),
                Some(_) if present.ready == 0 => self.settle(now),
                Some(_) => self.finish(false),
            }
            return;
        };
        let Some(replicas) = destination(Direction::Up, target, &present) else {
            // Somebody has scaled it, we or its owner: only the marker is left to go.
            let drop = Call::DropMarker(DropMarker::new(marked));
            self.state = State::Due(drop, Purpose::Flow);
            self.basis = Some(present);
            return;
        };
        if self.must_wait(target, now) {
            return;
        }
        self.corrupt_record = target.up.replicas.is_none() && present.recorded == Recorded::Corrupt;
        let call = Call::ScaleUp(ScaleUp::new(marked, replicas));
        self.attempt(call, target, present, now);
    }

    fn leave_alone(&mut self, present: &Present) {
        self.state = match Marked::found(present) {
            Some(marked) => State::Due(Call::DropMarker(DropMarker::new(marked)), Purpose::Flow),
            None => State::Done(TargetOutcome::Ignored),
        };
        self.scaled = None;
        self.basis = Some(present.clone());
    }

    /// The initial delay is slept once, and only where there is something to write; the target is
    /// read again after it.
    fn must_wait(&mut self, target: &Target, now: Time) -> bool {
        let delay = self.rule(target).initial_delay;
        let wait = !self.delay_is_over && !delay.is_zero();
        self.delay_is_over = true;
        if wait {
            self.state = State::ReadAt(now.after(delay));
        }
        wait
    }

    /// Begins a scale operation, and counts it. Repeating one after a conflict that changed nothing is
    /// none.
    fn attempt(&mut self, call: Call, target: &Target, present: Present, now: Time) {
        let is_repeat = self.conflicts > 0
            && self
                .basis
                .as_ref()
                .is_some_and(|basis| basis.is_like(&present));
        let purpose = if is_repeat {
            Purpose::Flow
        } else {
            self.attempts += 1;
            Purpose::Attempt
        };
        self.state = State::Due(call, purpose);
        self.overdue_at
            .get_or_insert(now.after(self.rule(target).timeout));
        self.basis = Some(present);
        self.scaled = None;
        self.settle_until = None;
    }

    /// Waits for its pods to follow, for a while.
    fn settle(&mut self, now: Time) {
        self.failures = 0;
        self.conflicts = 0;
        self.is_contested = false;
        let until = *self
            .settle_until
            .get_or_insert(now.after(READINESS_PATIENCE));
        if now >= until {
            self.finish(true);
        } else {
            self.state = State::ReadAt(now.after(READINESS_POLL).min(until));
        }
    }

    fn finish(&mut self, unready: bool) {
        self.state = State::Done(match self.scaled {
            Some(Scaled { at, replicas }) => TargetOutcome::Scaled {
                replicas,
                at,
                unready,
                corrupt_record: self.corrupt_record,
            },
            None => TargetOutcome::AlreadyThere,
        });
    }

    /// Tries again later. On the way down until the verdict changes; on the way up until its time is
    /// over, and then the flow has failed.
    fn fail(&mut self, target: &Target, now: Time) {
        if self.settle_until.is_some() {
            return self.settle(now);
        }
        let backoff = FIRST_RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.conflicts = 0;
        self.overdue_at
            .get_or_insert(now.after(self.rule(target).timeout));
        self.state = if self.direction == Direction::Up && self.is_overdue(now) {
            State::Done(TargetOutcome::Failed)
        } else {
            State::ReadAt(now.after(backoff.min(SLOWEST_RETRY)))
        };
    }
}

/// The count a flow in this direction would scale a target to, as it was seen; `None`: there is nothing
/// to scale.
pub fn destination(direction: Direction, target: &Target, present: &Present) -> Option<u32> {
    if present.ignored {
        return None;
    }
    let floor = floor(target);
    match direction {
        Direction::Down => (present.replicas > floor).then_some(floor),
        Direction::Up => {
            let replicas = match (target.up.replicas, present.recorded) {
                (Some(replicas), _) | (None, Recorded::Count(replicas)) => replicas,
                (None, Recorded::Absent | Recorded::Corrupt) => 1,
            };
            let is_ours = present.marked && present.replicas == floor;
            (is_ours && present.replicas < replicas).then_some(replicas)
        }
    }
}

/// d: what a target is scaled down to.
fn floor(target: &Target) -> u32 {
    target.down.replicas.unwrap_or(0)
}
