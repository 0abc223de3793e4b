//! The fence that decisions under other settings would have led to.

use super::round::RecordedRound;
use crate::Time;
use crate::prober::verdict::{Decision, FenceState, Verdict};

/// Follows the fence of decisions that depart from the recorded ones.
///
/// A fence and a release are assumed to be complete at the next round. As long as the verdicts are
/// those of the record, its fence counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AssumedFence {
    /// `None` as long as the fence is that of the record.
    apart: Option<Apart>,
}

#[derive(Clone, Copy, Debug)]
struct Apart {
    fence: FenceState,
    released: Option<Time>,
}

impl AssumedFence {
    /// Returns the round as it would have been.
    pub(super) fn applied_to(&self, round: &RecordedRound) -> RecordedRound {
        match self.apart {
            None => *round,
            Some(Apart { fence, released }) => RecordedRound {
                fence,
                released,
                stands_by: fence == FenceState::Full,
                ..*round
            },
        }
    }

    /// Follows a decision on a round. `recorded` is the verdict of the record at that time.
    pub(super) fn decided(
        &mut self,
        decision: &Decision,
        recorded: Verdict,
        round: &RecordedRound,
    ) {
        let is_same = decision.verdict == recorded;
        let before = self.apart.unwrap_or(Apart {
            fence: round.fence,
            released: round.released,
        });
        if self.apart.is_none() && is_same {
            return;
        }
        let is_fenced = matches!(before.fence, FenceState::Partial | FenceState::Full);
        let now = match decision.verdict {
            Verdict::Fence => Apart {
                fence: FenceState::Full,
                ..before
            },
            Verdict::Release if is_fenced => Apart {
                fence: FenceState::None,
                released: Some(round.end),
            },
            Verdict::Release => Apart {
                fence: FenceState::None,
                ..before
            },
            Verdict::Hold => before,
        };
        // Both are in the same place again.
        let is_together = is_same && now.fence == round.fence;
        self.apart = (!is_together).then_some(now);
    }
}
