//! Budgets for what a tenant can make the prober do.

use std::time::Duration;

use crate::Time;

/// A budget that refills at a steady rate. A tenant that uses it up gets less until then, so that
/// it costs other tenants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The cost of one use: the time in which it is refilled.
    refill: Duration,
    /// The full budget, as the time in which it is refilled.
    full: Duration,
    /// The instant at which the budget is full again.
    full_at: Time,
}

impl Budget {
    /// Creates a full budget of `uses`, one of which is refilled after each `refill`.
    pub const fn new(uses: u32, refill: Duration) -> Self {
        Self {
            refill,
            full: refill.saturating_mul(uses),
            full_at: Time::MIN,
        }
    }

    /// Returns the instant at which the budget is full again.
    pub(crate) fn full_at(&self) -> Time {
        self.full_at
    }

    /// Sets the instant at which the budget is full again.
    #[must_use]
    pub(crate) fn with_full_at(self, full_at: Time) -> Self {
        Self { full_at, ..self }
    }

    /// Returns whether one more use is within the budget.
    pub fn has(&self, now: Time) -> bool {
        self.full_at.since(now) + self.refill <= self.full
    }

    /// Takes one use. Returns false, and takes none, if the budget is used up.
    pub fn take(&mut self, now: Time) -> bool {
        let has = self.has(now);
        if has {
            self.full_at = self.full_at.max(now).after(self.refill);
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_steady_rate() {
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        let mut budget = Budget::new(3, Duration::from_secs(10));
        let burst: Vec<_> = (0..5).map(|_| budget.take(at(100))).collect();
        assert_eq!(burst, [true, true, true, false, false]);
        assert!(!budget.has(at(109)));
        assert!(budget.take(at(110)) && !budget.take(at(119)));
        let steady = (120..1_120).filter(|now| budget.take(at(*now))).count();
        assert_eq!(steady, 100);
        // It never holds more than the burst.
        let rested = (0..5).filter(|_| budget.take(at(100_000))).count();
        assert_eq!(rested, 3);
    }
}
