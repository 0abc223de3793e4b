//! One target's part of a flow.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::direction::{Direction, fenced_setting, goal};
use super::kept_record::KeepRecord;
use super::step::{
    Call, DropMarker, FenceWrite, Marked, Purpose, Record, Reply, RestoreWrite, WriteAnswer,
    WriteRecord,
};
use super::target_object::{Observed, RecordedSetting, ResourceVersion, TargetObject};
use crate::Time;
use crate::prober::{FlowRule, Setting, Target};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const SLOWEST_RETRY: Duration = Duration::from_secs(1);
const READINESS_PATIENCE: Duration = Duration::from_secs(5);
const READINESS_POLL: Duration = Duration::from_millis(500);
/// Writes are repeated at once after this many conflicts at most, so that two clients that fight
/// over a target do not cause a busy loop.
const CONFLICTS_AT_ONCE: u32 = 10;

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
    /// This replica is a standby, and the target is left to the leader.
    LeftToLeader,
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
    /// The instant at which the operation under way began.
    operation_began: Option<Time>,
    failures: u32,
    conflicts: u32,
    /// Conflicts ended the last attempt.
    is_contested: bool,
    /// The target as it was read before the last write.
    basis: Option<TargetObject>,
    /// The version that a write conflicted with. A watch that still shows it is behind.
    outdated: Option<ResourceVersion>,
    /// A watch shows the target's changes.
    is_watched: bool,
    applied: Option<AppliedSetting>,
    /// The applied setting, until it is reported.
    news: Option<AppliedSetting>,
    settle_until: Option<Time>,
    attempts: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedSetting {
    pub(super) at: Time,
    pub(super) setting: Setting,
    /// The setting is the default, because the record was corrupt.
    corrupt_record: bool,
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
            operation_began: None,
            failures: 0,
            conflicts: 0,
            is_contested: false,
            basis: None,
            outdated: None,
            is_watched: false,
            applied: None,
            news: None,
            settle_until: None,
            attempts: 0,
        }
    }

    pub(super) fn rule<'t>(&self, target: &'t Target) -> &'t FlowRule {
        target.rule(self.direction)
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

    /// Ends the flow of a standby, whether it has fenced the target or the leader has acted. The
    /// standby must not fence again what the leader releases. Returns false if it has ended before.
    pub(super) fn leave_to_leader(&mut self) -> bool {
        let is_open = self.outcome().is_none();
        if is_open && self.applied.is_some() {
            self.finish(false);
        } else if is_open {
            self.state = TargetFlowState::Done(TargetOutcome::LeftToLeader);
        }
        is_open
    }

    /// Returns whether its write is acknowledged, and only its pods have to follow.
    pub(super) fn is_settling(&self) -> bool {
        self.settle_until.is_some()
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.state, TargetFlowState::InFlight)
    }

    pub(super) fn begin(&mut self) {
        let purpose = if self.is_settling() {
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

    /// Returns how long a call may take. All writes of an operation together may take the time that
    /// the configuration gives it.
    pub(super) fn time_limit(&self, target: &Target, call: &Call, now: Time) -> Duration {
        let timeout = self.rule(target).timeout;
        match self.operation_began {
            Some(began) if call.is_write() => timeout.saturating_sub(now.since(began)),
            _ => timeout,
        }
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

    /// Returns the call to make now, with its purpose. A `known` state saves a read.
    pub(super) fn poll(
        &mut self,
        target: &Target,
        known: Option<&Observed>,
        now: Time,
    ) -> Option<(Call, Purpose)> {
        self.is_watched = known.is_some();
        if matches!(self.state, TargetFlowState::ReadAt(at) if now >= at) {
            self.begin();
        }
        if matches!(self.state, TargetFlowState::Due(Call::Read, _))
            && let Some(known) = known.filter(|known| !self.is_outdated(known))
        {
            self.evaluate(target, known.clone(), now);
        }
        match std::mem::replace(&mut self.state, TargetFlowState::InFlight) {
            TargetFlowState::Due(call, purpose) => Some((call, purpose)),
            other => {
                self.state = other;
                None
            }
        }
    }

    fn is_outdated(&self, known: &Observed) -> bool {
        let version = match known {
            Observed::Present(object) => Some(&object.version),
            Observed::Missing => None,
        };
        let versions = version.zip(self.outdated.as_ref());
        versions.is_some_and(|(version, outdated)| version.overlaps(outdated))
    }

    /// Takes in a state that a watch has shown: the pods may have followed.
    pub(super) fn observe(&mut self, target: &Target, observed: &Observed, now: Time) {
        if self.is_settling() && matches!(self.state, TargetFlowState::ReadAt(_)) {
            self.evaluate(target, observed.clone(), now);
        }
    }

    /// Reads the readiness from now on, which the watch would have shown.
    pub(super) fn watch_lost(&mut self, now: Time) {
        if self.is_settling() && matches!(self.state, TargetFlowState::ReadAt(_)) {
            self.state = TargetFlowState::ReadAt(now);
        }
        self.is_watched = false;
    }

    /// Returns the setting that was applied, once.
    pub(super) fn take_applied(&mut self) -> Option<AppliedSetting> {
        self.news.take()
    }

    /// Takes in the reply to a call.
    pub(super) fn reply(&mut self, target: &Target, call: Call, reply: Reply, now: Time) {
        match (call, reply) {
            (Call::Read, Reply::Read(observed)) => self.evaluate(target, observed, now),
            (Call::WriteRecord(write), Reply::Written(answer)) => {
                if let Some(basis) = &mut self.basis {
                    basis.mark(write.setting());
                }
                let record = write.acknowledged(answer.version().clone());
                let fence = Call::Fence(FenceWrite::after(record, fenced_setting(target)));
                self.state = TargetFlowState::Due(fence, Purpose::Flow);
            }
            (Call::Fence(write), Reply::Written(WriteAnswer::Version(_))) => {
                self.apply(target, write.setting(), now);
                self.settle(now);
            }
            (Call::Restore(write), Reply::Written(WriteAnswer::Version(version))) => {
                self.apply(target, write.setting(), now);
                // A record on the Lease is dropped beside the flow.
                let is_kept = self.basis.as_ref().is_some_and(|basis| basis.is_kept);
                if write.drops_marker() || is_kept {
                    self.settle(now);
                } else {
                    let drop = Call::DropMarker(DropMarker::after(&write, version));
                    self.state = TargetFlowState::Due(drop, Purpose::Flow);
                }
            }
            (call, Reply::WebhookFailed | Reply::Unanswered) if call.writes_record() => {
                self.keep_record(target, now);
            }
            (Call::KeepRecord(keep), Reply::LeaseWritten) => {
                if let Some(basis) = &mut self.basis {
                    basis.mark(keep.kept().setting());
                    basis.is_kept = true;
                }
                let record = keep.acknowledged();
                let fence = Call::Fence(FenceWrite::after(record, fenced_setting(target)));
                self.state = TargetFlowState::Due(fence, Purpose::Flow);
            }
            // The target is restored by its replicas alone. Its marker can wait for the webhook.
            (Call::Restore(write), Reply::WebhookFailed) if write.drops_marker() => {
                let restore = Call::Restore(write.keeping_marker());
                self.state = TargetFlowState::Due(restore, Purpose::Flow);
            }
            (Call::Fence(_), Reply::Written(WriteAnswer::Object(object))) => {
                // An admission webhook may have set another count.
                if goal(Direction::Down, target, &object).is_some() {
                    self.fail(target, now);
                } else {
                    self.apply(target, object.setting, now);
                    self.settle(now);
                    self.evaluate(target, Observed::Present(object), now);
                }
            }
            (Call::Restore(_), Reply::Written(WriteAnswer::Object(object))) => {
                self.apply(target, object.setting, now);
                self.settle(now);
                self.evaluate(target, Observed::Present(object), now);
            }
            // A marker that a webhook keeps from being dropped delays neither the next level nor
            // the end of the flow.
            (Call::DropMarker(_), Reply::Written(_) | Reply::WebhookFailed) => match self.applied {
                Some(_) => self.settle(now),
                None if self.basis.as_ref().is_some_and(|basis| basis.ignored) => {
                    self.state = TargetFlowState::Done(TargetOutcome::Ignored);
                }
                None => self.state = TargetFlowState::Done(TargetOutcome::AlreadyThere),
            },
            (call, Reply::Conflict) if self.conflicts < CONFLICTS_AT_ONCE => {
                self.outdated = call.version().cloned();
                self.conflicts += 1;
                self.begin();
            }
            (call, reply) => {
                self.is_contested = reply == Reply::Conflict;
                if self.is_contested {
                    self.outdated = call.version().cloned();
                }
                self.fail(target, now);
            }
        }
    }

    /// Goes on without the admission webhook: the record is kept on the leader Lease, and the
    /// replicas are set through the scale subresource.
    fn keep_record(&mut self, target: &Target, now: Time) {
        let call = self
            .basis
            .as_ref()
            .and_then(|basis| match Record::found(basis) {
                Some(record) => {
                    let fence = FenceWrite::after(record, fenced_setting(target));
                    Some(Call::Fence(fence))
                }
                // The record on the target is wrong, but counts more than one on the Lease.
                None if basis.carries_marker() => None,
                None => KeepRecord::new(basis).map(Call::KeepRecord),
            });
        match call {
            Some(call) => self.state = TargetFlowState::Due(call, Purpose::Flow),
            None => self.fail(target, now),
        }
    }

    /// Finds out what to do with a target in this state.
    fn evaluate(&mut self, target: &Target, observed: Observed, now: Time) {
        match observed {
            Observed::Missing if target.optional => {
                self.state = TargetFlowState::Done(TargetOutcome::Missing);
            }
            Observed::Missing => self.fail(target, now),
            Observed::Present(object) => match self.direction {
                _ if object.ignored => self.leave_alone(&object),
                Direction::Down => self.go_down(target, object, now),
                Direction::Up => self.go_up(target, object, now),
            },
        }
    }

    fn apply(&mut self, target: &Target, setting: Setting, now: Time) {
        let restores_record = self.direction == Direction::Up && target.up.setting.is_none();
        let recorded = self.basis.as_ref().map(|basis| basis.recorded);
        self.applied = Some(AppliedSetting {
            at: now,
            setting,
            corrupt_record: restores_record && recorded == Some(RecordedSetting::Corrupt),
        });
        self.news = self.applied;
    }

    fn go_down(&mut self, target: &Target, object: TargetObject, now: Time) {
        let Some(setting) = goal(Direction::Down, target, &object) else {
            if self.has_landed(|basis| {
                object.marked && object.recorded == RecordedSetting::Value(basis.setting)
            }) {
                self.apply(target, object.setting, now);
            }
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
            _ if target.takes_one_write() => Call::Fence(FenceWrite::with_record(&object, setting)),
            Some(record) => Call::Fence(FenceWrite::after(record, setting)),
            None => Call::WriteRecord(WriteRecord::new(&object)),
        };
        self.attempt(call, target, object, now);
    }

    fn go_up(&mut self, target: &Target, object: TargetObject, now: Time) {
        let has_goal = goal(Direction::Up, target, &object).is_some();
        let marked = Marked::found(&object).filter(|_| has_goal || !object.is_kept);
        let Some(marked) = marked else {
            let restored = |basis: &TargetObject| {
                basis.marked && goal(Direction::Up, target, basis) == Some(object.setting)
            };
            if self.has_landed(restored) {
                self.apply(target, object.setting, now);
            }
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
        let drops_marker = target.takes_one_write() && !object.is_kept;
        let restore = RestoreWrite::new(marked, setting, drops_marker);
        self.attempt(Call::Restore(restore), target, object, now);
    }

    /// Returns whether a write without an acknowledgement has happened, by the state it was based
    /// on.
    fn has_landed(&self, matches: impl Fn(&TargetObject) -> bool) -> bool {
        let has_attempted = self.attempts > 0 && self.applied.is_none();
        has_attempted && self.basis.as_ref().is_some_and(matches)
    }

    fn leave_alone(&mut self, object: &TargetObject) {
        self.state = match Marked::found(object).filter(|_| !object.is_kept) {
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
        if !is_repeat {
            self.operation_began = Some(now);
        }
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
        // A watch shows when the pods have followed.
        let next = if self.is_watched {
            until
        } else {
            until.min(now.after(READINESS_POLL))
        };
        if now >= until {
            self.finish(true);
        } else {
            self.state = TargetFlowState::ReadAt(next);
        }
    }

    fn finish(&mut self, unready: bool) {
        self.state = TargetFlowState::Done(match self.applied {
            Some(applied) => TargetOutcome::Applied {
                setting: applied.setting,
                at: applied.at,
                unready,
                corrupt_record: applied.corrupt_record,
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
