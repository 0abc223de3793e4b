//! The number of pods of one owner that may still be deleted in a window.

use std::collections::BTreeSet;

/// The pods of one owner in a window, and the deletions charged to it.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletionBudget {
    /// The uids of the pods that exist and are not terminating.
    alive: BTreeSet<String>,
    /// The largest number of pods alive at once. A replacement takes the place of the deleted pod,
    /// so a deletion does not raise the cap.
    max_alive: u32,
    /// The uids of the pods that were deleted, or may have been.
    charged: BTreeSet<String>,
    /// It was reported that the cap is reached.
    pub(super) is_cap_reported: bool,
}

impl DeletionBudget {
    pub(super) fn add_pod(&mut self, uid: &str) {
        self.alive.insert(uid.to_owned());
        self.max_alive = self.max_alive.max(count(&self.alive));
    }

    pub(super) fn remove_pod(&mut self, uid: &str) {
        self.alive.remove(uid);
    }

    /// Returns whether this pod may be deleted. A pod that is already charged is not charged again.
    pub(super) fn has_room(&self, uid: &str, per_pod: u32) -> bool {
        let cap = per_pod.saturating_mul(self.max_alive);
        self.charged.contains(uid) || count(&self.charged) < cap
    }

    pub(super) fn charge(&mut self, uid: &str) {
        self.charged.insert(uid.to_owned());
    }

    /// Takes back the charge for a pod that was not deleted after all.
    pub(super) fn refund(&mut self, uid: &str) {
        self.charged.remove(uid);
    }

    pub(super) fn charged(&self) -> u32 {
        count(&self.charged)
    }
}

fn count(uids: &BTreeSet<String>) -> u32 {
    u32::try_from(uids.len()).unwrap_or(u32::MAX)
}
