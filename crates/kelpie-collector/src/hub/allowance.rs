//! How large a request may be.

use std::sync::atomic::{AtomicUsize, Ordering};

/// No hub means requests as small as this when it says that one is too large.
const LEAST: usize = 16 * 1024;

/// What each request that is taken adds: a part of what there is. A hub that does have a limit then
/// refuses one request in about twenty.
const GROWTH: usize = 64;

/// The bytes that a request may have: fewer once the hub has said that it was too large, and more with
/// everything that it takes.
///
/// Bytes, not samples: one sample with an enormous label says nothing about requests without it.
#[derive(Debug)]
pub(super) struct Allowance(AtomicUsize);

impl Allowance {
    /// As large as they come.
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// Whether a request of so many bytes may be tried.
    pub(super) fn covers(&self, bytes: usize) -> bool {
        bytes <= self.0.load(Ordering::Relaxed)
    }

    /// A request of so many bytes was too large.
    pub(super) fn shrink(&self, bytes: usize) {
        let most = (bytes - bytes / 4).max(LEAST);
        self.0.fetch_min(most, Ordering::Relaxed);
    }

    /// A request was taken.
    pub(super) fn grow(&self) {
        let more = |most: usize| Some(most.saturating_add(most / GROWTH));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_may_be_tried_until_something_is_too_large() {
        let allowance = Allowance::new();
        allowance.grow();
        assert!(allowance.covers(usize::MAX));
        allowance.shrink(1_000_000);
        assert!(allowance.covers(750_000) && !allowance.covers(750_001));
        allowance.shrink(2_000_000);
        assert!(!allowance.covers(750_001), "that was known");
    }

    #[test]
    fn a_hub_that_refuses_everything_does_not_make_requests_tiny() {
        let allowance = Allowance::new();
        for bytes in [1_000_000, 10_000, 1, 0] {
            allowance.shrink(bytes);
        }
        assert!(allowance.covers(LEAST) && !allowance.covers(LEAST + 1));
    }

    #[test]
    fn what_is_taken_lets_requests_grow_again_but_not_at_once() {
        let allowance = Allowance::new();
        allowance.shrink(1_000_000);
        let mut taken = 0;
        while !allowance.covers(1_000_000) {
            allowance.grow();
            taken += 1;
        }
        assert!((15..25).contains(&taken), "{taken}");
    }
}
