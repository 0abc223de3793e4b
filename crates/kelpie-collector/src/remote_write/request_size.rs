//! Adapts the size of requests to the hub's limit.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest limit. No hub that answers 413 means requests smaller than this.
const MIN_BYTES: usize = 16 * 1024;

/// Each accepted request raises the limit by this fraction. A hub with a fixed limit then refuses
/// about one request in twenty.
const GROWTH_DIVISOR: usize = 64;

/// The size limit of a request. It shrinks when the hub answers that a request was too large, and
/// grows with every accepted request.
///
/// It counts bytes and not samples, because one sample with an enormous label says nothing about
/// requests without it.
#[derive(Debug)]
pub(super) struct RequestSizeLimit(AtomicUsize);

impl RequestSizeLimit {
    /// Starts without a limit.
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// Returns true if a request of this size may be sent.
    pub(super) fn allows(&self, bytes: usize) -> bool {
        bytes <= self.0.load(Ordering::Relaxed)
    }

    /// Returns true if a request of this size can be too large for a hub that works.
    pub(super) fn is_above_minimum(bytes: usize) -> bool {
        bytes > MIN_BYTES
    }

    /// Lowers the limit after a request of this size was too large.
    pub(super) fn shrink(&self, bytes: usize) {
        let limit = (bytes - bytes / 4).max(MIN_BYTES);
        self.0.fetch_min(limit, Ordering::Relaxed);
    }

    /// Raises the limit after a request was accepted.
    pub(super) fn grow(&self) {
        let raise = |limit: usize| Some(limit.saturating_add(limit / GROWTH_DIVISOR));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_limit_until_413() {
        let limit = RequestSizeLimit::new();
        limit.grow();
        assert!(limit.allows(usize::MAX));
        limit.shrink(1_000_000);
        assert!(limit.allows(750_000) && !limit.allows(750_001));
        limit.shrink(2_000_000);
        assert!(!limit.allows(750_001), "the lower limit stays");
    }

    #[test]
    fn limit_has_a_lower_bound() {
        let limit = RequestSizeLimit::new();
        for bytes in [1_000_000, 10_000, 1, 0] {
            limit.shrink(bytes);
        }
        assert!(limit.allows(MIN_BYTES) && !limit.allows(MIN_BYTES + 1));
    }

    #[test]
    fn limit_grows_back_gradually() {
        let limit = RequestSizeLimit::new();
        limit.shrink(1_000_000);
        let mut accepted = 0;
        while !limit.allows(1_000_000) {
            limit.grow();
            accepted += 1;
        }
        assert!((15..25).contains(&accepted), "{accepted}");
    }
}
