//! The content of the guard's policy.

use super::permits::Permits;
use crate::{Time, fnv1a};

/// The content of the guard's policy, apart from its fixed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardContent {
    /// The end of the guard on the API server's clock, in whole seconds.
    pub until: Time,
    /// The nodes that may turn Unknown before that.
    pub permits: Permits,
}

impl GuardContent {
    /// Returns the hash of the permits, by which an enforced policy is recognized.
    pub fn permits_hash(&self) -> u64 {
        match self.permits.names() {
            None => fnv1a(*b"*"),
            Some(names) => fnv1a(names.iter().flat_map(|name| name.bytes().chain(*b"/"))),
        }
    }

    /// Returns what a denied request tells about this content.
    pub fn mark(&self) -> GuardMark {
        GuardMark {
            until: self.until,
            permits_hash: self.permits_hash(),
        }
    }
}

/// The content of an enforced policy, as a denied request tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardMark {
    /// The end of the guard.
    pub until: Time,
    /// The hash of the permits.
    pub permits_hash: u64,
}
