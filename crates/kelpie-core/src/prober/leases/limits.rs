//! The grace period G and the durations derived from it.

use std::time::Duration;

use crate::time::micros;

/// The grace period G and the durations derived from it, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraceLimits {
    grace: i64,
    expiry: i64,
    half: i64,
}

impl GraceLimits {
    pub(crate) fn new(grace: Duration) -> Self {
        let grace = micros(grace);
        Self {
            grace,
            expiry: grace / 4 * 3 + grace % 4 * 3 / 4,
            half: grace / 2,
        }
    }

    pub(crate) fn grace(&self) -> i64 {
        self.grace
    }

    /// Returns 0.75 G: a lease expires after this long without a renewal.
    pub(crate) fn expiry(&self) -> i64 {
        self.expiry
    }

    pub(crate) fn half(&self) -> i64 {
        self.half
    }

    pub(crate) fn quarter(&self) -> i64 {
        self.grace / 4
    }
}
