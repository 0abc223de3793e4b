//! How many pods of one owner may still be deleted in a window.

use std::collections::BTreeSet;

/// What a window has seen and done of one owner's pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Pods that are there and on nobody's way out, by uid.
    alive: BTreeSet<String>,
    /// The most that were there at once. A successor takes its predecessor's place, so that deleting
    /// does not raise the cap.
    most: u32,
    /// Pods that were deleted, or may have been.
    charged: BTreeSet<String>,
    /// It was told that the cap is reached.
    pub(super) gave_up: bool,
}

impl Tally {
    pub(super) fn arrived(&mut self, uid: &str) {
        self.alive.insert(uid.to_owned());
        self.most = self.most.max(count(&self.alive));
    }

    pub(super) fn left(&mut self, uid: &str) {
        self.alive.remove(uid);
    }

    /// Whether this pod may be deleted. One that is charged already costs nothing more.
    pub(super) fn has_room(&self, uid: &str, per_pod: u32) -> bool {
        let cap = per_pod.saturating_mul(self.most);
        self.charged.contains(uid) || count(&self.charged) < cap
    }

    pub(super) fn charge(&mut self, uid: &str) {
        self.charged.insert(uid.to_owned());
    }

    /// It was not deleted after all.
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
