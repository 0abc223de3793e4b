//! A standby that fences in place of the leader.

use std::time::Duration;

use super::flow::has_deadline;
use super::step::TargetId;
use super::target_object::TargetObject;
use super::target_view::TargetView;
use super::{Fencing, FlowReport};
use crate::Time;
use crate::prober::{Decision, Verdict};

/// The leader gets this long from the standby's own decision on.
const LEADER_FIRST: Duration = Duration::from_secs(1);

/// The part of a standby in one trip: it fences at most once, and only the targets that the
/// deadline is about.
#[derive(Debug)]
pub(super) struct Assistance {
    since: Time,
    /// The fence was made, or there was nothing to fence.
    pub(super) is_over: bool,
    /// The targets that the leader has fenced or released since.
    left_alone: Vec<bool>,
}

impl Assistance {
    /// Takes in a change of a target. One that has the marker, or was started since, is left alone.
    pub(super) fn track(
        &mut self,
        target: TargetId,
        before: Option<&TargetObject>,
        after: Option<&TargetObject>,
    ) {
        let is_started = match (before, after) {
            (Some(before), Some(after)) => after.setting > before.setting,
            _ => false,
        };
        if let Some(left_alone) = self.left_alone.get_mut(target.0) {
            // A record that is kept on the Lease may be this replica's own.
            *left_alone |= is_started || after.is_some_and(TargetObject::carries_marker);
        }
    }

    pub(super) fn leaves_alone(&self, target: TargetId) -> bool {
        self.left_alone.get(target.0).copied().unwrap_or_default()
    }
}

impl Fencing {
    /// Applies a decision as a standby. If the targets that the deadline is about still run a
    /// second after this replica's own decision to fence, it fences them, once per trip. Where the
    /// leader has begun, it gets the time that the deadline leaves. Nothing that the leader has
    /// fenced or released since is touched. A standby never restores.
    pub fn assist(&mut self, decision: &Decision, now: Time) -> Option<FlowReport> {
        self.parallel_from = decision.parallel_from;
        for view in &mut self.views {
            view.contradicted_at = None;
        }
        self.wanted = match decision.verdict {
            Verdict::Fence => self.fence_direction(),
            Verdict::Release | Verdict::Hold => None,
        };
        match decision.verdict {
            Verdict::Fence if self.assistance.is_none() => {
                let marked =
                    |view: &TargetView| view.present().is_some_and(TargetObject::carries_marker);
                self.assistance = Some(Assistance {
                    since: now,
                    is_over: false,
                    left_alone: self.views.iter().map(marked).collect(),
                });
            }
            Verdict::Fence | Verdict::Hold => {}
            Verdict::Release => {
                self.assistance = None;
                return self.cancel_flow();
            }
        }
        None
    }

    /// Returns the instant from which the standby may fence. A leader that has fenced other targets
    /// keeps the order of the levels, until the deadline ends it.
    pub(super) fn assistance_at(&self, assistance: &Assistance) -> Time {
        let mut views = self.views.iter().zip(&*self.targets);
        let leader_acts = views
            .any(|(view, target)| view.is_fenced(target) && !has_deadline(target, &self.targets));
        let levels_end = self.parallel_from.filter(|_| leader_acts);
        let first = assistance.since.after(LEADER_FIRST);
        levels_end.map_or(first, |end| end.max(first))
    }

    /// Returns for each target whether the standby would fence it, as far as is known.
    pub(super) fn assisted(&self) -> Vec<bool> {
        let left_alone = self.assistance.iter().flat_map(|it| &it.left_alone);
        let views = self.views.iter().zip(&*self.targets).zip(left_alone);
        let is_open = views.map(|((view, target), left_alone)| {
            let may_run = view.observed.is_none() || view.runs(target);
            !left_alone && may_run && has_deadline(target, &self.targets)
        });
        is_open.collect()
    }
}
