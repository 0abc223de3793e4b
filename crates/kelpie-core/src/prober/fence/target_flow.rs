//! One target's part of a flow.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::step::{
    Call, DropMarker, FenceWrite, Marked, Purpose, Record, Reply, RestoreWrite, WriteRecord,
};
use super::target_object::{Observed, RecordedSetting, TargetObject};
use crate::Time;
use crate::prober::{FlowRule, Setting, Target};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const SLOWEST_RETRY: Duration = Duration::from_secs(1);
const READINESS_PATIENCE: Duration = Duration::from_secs(5);
const READINESS_POLL: Duration = Duration::from_millis(500);
/// Writes are repeated at once after this many conflicts at most, so that two clients that fight
/// over a target do not cause a busy loop.
const CONFLICTS_AT_ONCE: u32 = 10;

/// The direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// Fencing: the setting is lowered.
    Down,
    /// Restoring: the recorded setting is applied.
    Up,
}

/// The outcome of a target's part of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetOutcome {
    /// The setting was applied.
    #[serde(rename_all = "camelCase")]
    Applied {
        /// The setting that was applied.
        setting: Setting,
        /// The instant at which the write was acknowledged.
        at: Time,
        /// The pods did not follow in time.
        unready: bool,
        /// The record was corrupt, so [`Setting::RUNNING`] was used.
        corrupt_record: bool,
    },
    /// There was nothing to do.
    AlreadyThere,
    /// The target is optional and does not exist.
    Missing,
    /// The owner wants the target left alone.
    Ignored,
    /// The target does not carry our marker, so it is not ours to restore.
    NotOurs,
    /// The setting could not be applied.
    Failed,
}

/// One target's part of a flow.
#[derive(Debug)]
pub(super) struct TargetFlow {
    direction: Direction,
    state: TargetFlowState,
    delay_is_over: bool,
    /// The instant at which its writes have taken longer than they may.
    overdue_at: Option<Time>,
    failures: u32,
    conflicts: u32,
    /// Conflicts ended the last attempt.
    is_contested: bool,
    /// The target as it was read before the last write.
    basis: Option<TargetObject>,
    corrupt_record: bool,
    applied: Option<AppliedSetting>,
    settle_until: Option<Time>,
    attempts: u32,
}

#[derive(Clone, Copy, Debug)]
struct AppliedSetting {
    at: Time,
    setting: Setting,
}

#[derive(Debug)]
enum TargetFlowState {
    /// Its level has not started.
    Waiting,
    /// This call is to be made now.
    Due(Call, Purpose),
    /// A call is under way.
    InFlight,
    /// The target is read again at this instant: after the initial delay, after a failure, or to
    /// see whether pods have followed.
    ReadAt(Time),
    Done(TargetOutcome),
}

impl TargetFlow {
    pub(super) fn new(direction: Direction) -> Self {
        Self {
            direction,
            state: TargetFlowState::Waiting,
            delay_is_over: false,
            overdue_at: None,
            failures: 0,
            conflicts: 0,
            is_contested: false,
            basis: None,
            corrupt_record: false,
            applied: None,
            settle_until: None,
            attempts: 0,
        }
    }

    pub(super) fn rule<'t>(&self, target: &'t Target) -> &'t FlowRule {
        match self.direction {
            Direction::Down => &target.down,
            Direction::Up => &target.up,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, TargetFlowState::Waiting)
    }

    /// Starts again without the initial delay, because another client undid the write.
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
        self.state = TargetFlowState::Due(Call::Read, purpose);
    }

    pub(super) fn outcome(&self) -> Option<TargetOutcome> {
        match self.state {
            TargetFlowState::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns the number of operations attempted so far.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns whether its calls have failed for longer than they may take.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.overdue_at().is_some_and(|at| now >= at)
    }

    /// Returns the instant at which its calls will have failed for longer than they may take.
    pub(super) fn overdue_at(&self) -> Option<Time> {
        self.overdue_at
            .filter(|_| self.failures > 0 && self.outcome().is_none())
    }

    /// Returns the instant at which there is something to do without a reply.
    pub(super) fn next_wake(&self) -> Option<Time> {
        match self.state {
            TargetFlowState::ReadAt(at) => Some(at),
            TargetFlowState::Due(..) => Some(Time::MIN),
            TargetFlowState::Waiting | TargetFlowState::InFlight | TargetFlowState::Done(_) => None,
        }
    }

    /// Returns whether conflicts ended the last attempt.
    pub(super) fn is_contested(&self) -> bool {
        self.is_contested
    }

    /// Returns the call to make now, with its purpose.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Call, Purpose)> {
        if matches!(self.state, TargetFlowState::ReadAt(at) if now >= at) {
            self.begin();
        }
        match std::mem::replace(&mut self.state, TargetFlowState::InFlight) {
            TargetFlowState::Due(call, purpose) => Some((call, purpose)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Takes in the reply to a call.
    pub(super) fn reply(&mut self, target: &Target, call: Call, reply: Reply, now: Time) {
        match (call, reply) {
            (Call::Read, Reply::Read(Observed::Missing)) if target.optional => {
                self.state = TargetFlowState::Done(TargetOutcome::Missing);
            }
            (Call::Read, Reply::Read(Observed::Present(object))) => match self.direction {
                _ if object.ignored => self.leave_alone(&object),
                Direction::Down => self.go_down(target, object, now),
                Direction::Up => self.go_up(target, object, now),
            },
            (Call::WriteRecord(write), Reply::Written(version)) => {
                if let Some(basis) = &mut self.basis {
                    basis.mark(write.setting());
                }
                let record = write.acknowledged(version);
                let fence = Call::Fence(FenceWrite::new(record, fenced_setting(target)));
                self.state = TargetFlowState::Due(fence, Purpose::Flow);
            }
            (Call::Fence(write), Reply::Written(_)) => {
                self.applied = Some(AppliedSetting {
                    at: now,
                    setting: write.setting(),
                });
                self.settle(now);
            }
            (Call::Restore(write), Reply::Written(version)) => {
                self.applied = Some(AppliedSetting {
                    at: now,
                    setting: write.setting(),
                });
                let drop = Call::DropMarker(DropMarker::after(&write, version));
                self.state = TargetFlowState::Due(drop, Purpose::Flow);
            }
            (Call::DropMarker(_), Reply::Written(_)) => match self.applied {
                Some(_) => self.settle(now),
                None if self.basis.as_ref().is_some_and(|basis| basis.ignored) => {
                    self.state = TargetFlowState::Done(TargetOutcome::Ignored);
                }
                None => self.state = TargetFlowState::Done(TargetOutcome::AlreadyThere),
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

    fn go_down(&mut self, target: &Target, object: TargetObject, now: Time) {
        let Some(setting) = goal(Direction::Down, target, &object) else {
            if object.effective <= fenced_setting(target) {
                self.finish(false);
            } else {
                self.settle(now);
            }
            return;
        };
        if self.must_wait(target, now) {
            return;
        }
        let call = match Record::found(&object) {
            Some(record) => Call::Fence(FenceWrite::new(record, setting)),
            None => Call::WriteRecord(WriteRecord::new(&object)),
        };
        self.attempt(call, target, object, now);
    }

    fn go_up(&mut self, target: &Target, object: TargetObject, now: Time) {
        let Some(marked) = Marked::found(&object) else {
            match self.applied {
                None => self.state = TargetFlowState::Done(TargetOutcome::NotOurs),
                Some(_) if object.effective == Setting::FENCED => self.settle(now),
                Some(_) => self.finish(false),
            }
            return;
        };
        let Some(setting) = goal(Direction::Up, target, &object) else {
            // It was restored already, by a watchdog or its owner. Only the marker is left to drop.
            let drop = Call::DropMarker(DropMarker::new(marked));
            self.state = TargetFlowState::Due(drop, Purpose::Flow);
            self.basis = Some(object);
            return;
        };
        if self.must_wait(target, now) {
            return;
        }
        self.corrupt_record =
            target.up.setting.is_none() && object.recorded == RecordedSetting::Corrupt;
        let call = Call::Restore(RestoreWrite::new(marked, setting));
        self.attempt(call, target, object, now);
    }

    fn leave_alone(&mut self, object: &TargetObject) {
        self.state = match Marked::found(object) {
            Some(marked) => {
                TargetFlowState::Due(Call::DropMarker(DropMarker::new(marked)), Purpose::Flow)
            }
            None => TargetFlowState::Done(TargetOutcome::Ignored),
        };
        self.applied = None;
        self.basis = Some(object.clone());
    }

    /// Sleeps the initial delay once, and only if there is something to write. The target is read
    /// again after it.
    fn must_wait(&mut self, target: &Target, now: Time) -> bool {
        let delay = self.rule(target).initial_delay;
        let wait = !self.delay_is_over && !delay.is_zero();
        self.delay_is_over = true;
        if wait {
            self.state = TargetFlowState::ReadAt(now.after(delay));
        }
        wait
    }

    /// Starts an operation and counts it as an attempt. A repetition after a conflict that changed
    /// nothing is not an attempt.
    fn attempt(&mut self, call: Call, target: &Target, object: TargetObject, now: Time) {
        let is_repeat = self.conflicts > 0
            && self
                .basis
                .as_ref()
                .is_some_and(|basis| basis.is_like(&object));
        let purpose = if is_repeat {
            Purpose::Flow
        } else {
            self.attempts += 1;
            Purpose::Attempt
        };
        self.state = TargetFlowState::Due(call, purpose);
        self.overdue_at
            .get_or_insert(now.after(self.rule(target).timeout));
        self.basis = Some(object);
        self.applied = None;
        self.settle_until = None;
    }

    /// Waits for the pods to follow, up to a limit.
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
            self.state = TargetFlowState::ReadAt(now.after(READINESS_POLL).min(until));
        }
    }

    fn finish(&mut self, unready: bool) {
        self.state = TargetFlowState::Done(match self.applied {
            Some(AppliedSetting { at, setting }) => TargetOutcome::Applied {
                setting,
                at,
                unready,
                corrupt_record: self.corrupt_record,
            },
            None => TargetOutcome::AlreadyThere,
        });
    }

    /// Tries again later. A fence is retried until the verdict changes. A restore is retried until
    /// its time is over, and then the flow has failed.
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
            TargetFlowState::Done(TargetOutcome::Failed)
        } else {
            TargetFlowState::ReadAt(now.after(backoff.min(SLOWEST_RETRY)))
        };
    }
}

/// Returns the setting that a flow in this direction would apply; `None` if there is nothing to do.
pub fn goal(direction: Direction, target: &Target, object: &TargetObject) -> Option<Setting> {
    if object.ignored {
        return None;
    }
    let fenced = fenced_setting(target);
    match direction {
        Direction::Down => (object.setting > fenced).then_some(fenced),
        Direction::Up => {
            let setting = match (target.up.setting, object.recorded) {
                (Some(setting), _) | (None, RecordedSetting::Value(setting)) => setting,
                (None, RecordedSetting::Absent | RecordedSetting::Corrupt) => Setting::RUNNING,
            };
            let is_ours = object.marked && object.setting == fenced;
            (is_ours && object.setting < setting).then_some(setting)
        }
    }
}

/// Returns the setting of a fenced target.
fn fenced_setting(target: &Target) -> Setting {
    target.down.setting.unwrap_or(Setting::FENCED)
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::Up => "up",
        })
    }
}
