//! Times of a landscape, scaled together.

use std::time::Duration;

/// How fast a landscape lives. The ratios are those of the real world, or kinder to a loaded machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// G: after so long without a renewal a node turns Unknown.
    pub grace: Duration,
    /// P: how often a kubelet renews.
    pub renewal: Duration,
    /// `fenceReserve`.
    pub reserve: Duration,
    /// `probeInterval`.
    pub interval: Duration,
}

impl Pace {
    /// As Gardener has it.
    pub const REAL: Self = Self {
        grace: Duration::from_secs(40),
        renewal: Duration::from_secs(10),
        reserve: Duration::from_secs(3),
        interval: Duration::from_secs(10),
    };

    /// For tests in which a fence comes sooner or later: from cut to trip 6 s.
    pub const QUICK: Self = Self {
        grace: Duration::from_secs(8),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_millis(600),
        interval: Duration::from_secs(2),
    };

    /// For tests that hold a fence against its deadline: from trip to deadline at least 2.4 s.
    pub const ROOMY: Self = Self {
        grace: Duration::from_secs(12),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_millis(1_500),
        interval: Duration::from_secs(2),
    };

    /// The real world, five times as fast: from trip to deadline 0.8 s.
    pub const SCALED: Self = Self {
        grace: Duration::from_secs(8),
        renewal: Duration::from_secs(2),
        reserve: Duration::from_millis(600),
        interval: Duration::from_secs(2),
    };

    /// The duration that kubelets write: four renewals.
    pub fn lease_seconds(&self) -> u64 {
        self.renewal.as_secs() * 4
    }
}
