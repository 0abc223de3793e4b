//! Writes that no flow waits for: a record is moved from the leader Lease to its target, and what
//! is left of a fence is removed.

use super::Fencing;
use super::flow::Flow;
use super::kept_record::KeptRecord;
use super::step::{Call, Origin, Purpose, Step, TargetId};
use crate::Time;

impl Fencing {
    /// Takes in the record of a target on the leader Lease; `None` if there is none. The target
    /// counts as marked and recorded by it.
    pub fn set_kept(&mut self, target: TargetId, kept: Option<KeptRecord>, now: Time) {
        if target.0 < self.views.len() {
            self.learn(target, now, |view| view.set_kept(kept, now));
        }
    }

    /// Returns whether a target is fenced whose record is on the leader Lease only.
    pub fn is_kept(&self, id: TargetId) -> bool {
        let view = self.views.get(id.0).zip(self.targets.get(id.0));
        view.is_some_and(|(view, target)| {
            let is_kept = view.present().is_some_and(|object| object.is_kept);
            is_kept && view.is_marked(target)
        })
    }

    /// Starts the write that is due on a target.
    pub(super) fn begin_upkeep(&mut self, target: TargetId, now: Time) -> Option<Step> {
        let (_, call) = self.upkeep(target).filter(|(at, _)| now >= *at)?;
        let number = self.next_number();
        let time_limit = self.targets.get(target.0)?.up.timeout;
        self.views.get_mut(target.0)?.upkeep = Some(number);
        Some(Step {
            target,
            call,
            origin: Origin::Upkeep(number),
            time_limit,
            purpose: Purpose::Upkeep,
            is_deadline_target: false,
        })
    }

    pub(super) fn end_upkeep(&mut self, target: TargetId, number: u64, call: &Call, now: Time) {
        let view = self.views.get_mut(target.0);
        if let Some(view) = view.filter(|view| view.upkeep == Some(number)) {
            view.upkeep_ended(call, now);
        }
    }

    /// Returns the write that no flow waits for, and the instant from which it may be sent.
    pub(super) fn upkeep(&self, id: TargetId) -> Option<(Time, Call)> {
        let wanted = self.wanted.filter(|_| self.assistance.is_none())?;
        let is_busy = |flow: &Flow| !flow.is_done(id);
        if self.flow.as_ref().is_some_and(is_busy) {
            return None;
        }
        let (view, target) = (self.views.get(id.0)?, self.targets.get(id.0)?);
        view.upkeep(wanted, target)
    }
}
