//! The number of pods of one owner that may still be deleted in a window.

use std::collections::{BTreeMap, BTreeSet};

/// The pods of one owner in a window, and the deletions charged to it.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletionBudget {
    /// The uids of the pods that exist and are not terminating.
    alive: BTreeSet<String>,
    /// The largest number of pods alive at once. A replacement takes the place of the deleted pod,
    /// so a deletion does not raise the cap.
    max_alive: u32,
    /// The uids of the pods that were deleted or may have been, each with whether the charge stays
    /// whatever later attempts bring.
    charged: BTreeMap<String, bool>,
    /// It was reported that the cap is reached.
    pub(super) is_cap_reported: bool,
}

impl DeletionBudget {
    pub(super) fn add_pod(&mut self, uid: &str) {
        self.alive.insert(uid.to_owned());
        self.max_alive = self.max_alive.max(count(self.alive.len()));
    }

    pub(super) fn remove_pod(&mut self, uid: &str) {
        self.alive.remove(uid);
    }

    /// Returns whether this pod may be deleted. A pod that is already charged is not charged again.
    pub(super) fn has_room(&self, uid: &str, per_pod: u32) -> bool {
        let cap = per_pod.saturating_mul(self.max_alive);
        self.charged.contains_key(uid) || self.charged() < cap
    }

    pub(super) fn charge(&mut self, uid: &str) {
        self.charged.entry(uid.to_owned()).or_default();
    }

    /// Keeps the charge for a pod that may have been deleted: if a later attempt finds it gone or
    /// changed, that may be the effect of this one.
    pub(super) fn keep(&mut self, uid: &str) {
        if let Some(is_kept) = self.charged.get_mut(uid) {
            *is_kept = true;
        }
    }

    /// Takes back the charge for a pod that was not deleted after all, unless it is kept.
    pub(super) fn refund(&mut self, uid: &str) {
        if self.charged.get(uid) == Some(&false) {
            self.charged.remove(uid);
        }
    }

    pub(super) fn charged(&self) -> u32 {
        count(self.charged.len())
    }
}

fn count(pods: usize) -> u32 {
    u32::try_from(pods).unwrap_or(u32::MAX)
}
