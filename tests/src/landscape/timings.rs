//! The durations of a landscape.

use std::time::Duration;

/// The durations of a landscape, scaled together. Their ratios are those of production, or leave
/// more slack for a loaded machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// The grace period G: a node without a renewal for this long becomes Unknown.
    pub grace: Duration,
    /// The period P between two renewals of a kubelet.
    pub renewal: Duration,
    /// The setting `fenceReserve` of the prober.
    pub reserve: Duration,
    /// The setting `probeInterval` of the prober.
    pub interval: Duration,
}

impl Timings {
    /// The durations that Gardener uses.
    pub const REAL: Self = Self {
        grace: Duration::from_secs(40),
        renewal: Duration::from_secs(10),
        reserve: Duration::from_secs(3),
        interval: Duration::from_secs(10),
    };

    /// For tests that expect a fence at some time: 6 s from the partition to the trip.
    pub const QUICK: Self = Self {
        grace: Duration::from_secs(8),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_millis(600),
        interval: Duration::from_secs(2),
    };

    /// For tests that compare a fence with its deadline: at least 2.4 s from the trip to the
    /// deadline.
    pub const ROOMY: Self = Self {
        grace: Duration::from_secs(12),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_millis(1_500),
        interval: Duration::from_secs(2),
    };

    /// [`REAL`](Self::REAL), five times as fast: 0.8 s from the trip to the deadline.
    pub const SCALED: Self = Self {
        grace: Duration::from_secs(8),
        renewal: Duration::from_secs(2),
        reserve: Duration::from_millis(600),
        interval: Duration::from_secs(2),
    };

    /// The `leaseDurationSeconds` that kubelets write: four renewals.
    pub fn lease_seconds(&self) -> u64 {
        self.renewal.as_secs() * 4
    }
}
