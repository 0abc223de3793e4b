//! The time a fence has.

use std::fmt;
use std::time::Duration;

use kelpie_core::{Fraction, Settings};

use crate::GoDuration;

/// How often kubelets renew their leases unless told otherwise.
const RENEW_PERIOD: Duration = Duration::from_secs(10);

/// From the trip of a cluster that is cut off as a whole to its first node turning `Unknown`.
///
/// A cluster trips when the failure fraction of its leases has expired, 0.75 G after their renewal.
/// Renewals are spread over the kubelets' period P, so the trip comes f P after the oldest lease
/// expired, and 0.25 G - f P remain. Last call can trip it earlier: `fenceReserve` before the
/// deadline, once enough nodes have been silent for long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    grace: Duration,
    fraction: Fraction,
    reserve: Duration,
}

impl Budget {
    /// The budget under `settings` for clusters without a grace period of their own.
    pub fn of(settings: &Settings) -> Self {
        Self {
            grace: settings.grace,
            fraction: settings.failure_fraction,
            reserve: settings.fence_reserve,
        }
    }

    /// The time left at the trip; zero: the first node is `Unknown` before the cluster trips.
    pub fn left(&self) -> Duration {
        self.after_expiry().max(self.after_last_call())
    }

    /// P: 10 s, but at most half of G.
    pub fn renew_period(&self) -> Duration {
        RENEW_PERIOD.min(self.grace / 2).max(Duration::from_secs(1))
    }

    /// How much later than the first node the one that trips the cluster renewed.
    fn spread(&self) -> Duration {
        self.renew_period().mul_f64(self.fraction.get())
    }

    fn after_expiry(&self) -> Duration {
        (self.grace / 4).saturating_sub(self.spread())
    }

    fn after_last_call(&self) -> Duration {
        let silence = (self.grace / 2).max(2 * self.renew_period());
        self.reserve
            .min(self.grace.saturating_sub(silence + self.spread()))
    }
}

/// Where the number comes from: `0.25 * 40s - 0.6 * 10s`.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after_last_call = self.after_last_call();
        if after_last_call > self.after_expiry() {
            return write!(f, "last call, fenceReserve {}", GoDuration(self.reserve));
        }
        write!(
            f,
            "0.25 * {} - {} * {}",
            GoDuration(self.grace),
            self.fraction.get(),
            GoDuration(self.renew_period())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(grace: u64, fraction: f64, reserve: u64) -> Budget {
        Budget {
            grace: Duration::from_secs(grace),
            fraction: Fraction::new(fraction).unwrap(),
            reserve: Duration::from_secs(reserve),
        }
    }

    #[test]
    fn what_remains_is_a_quarter_of_grace_less_the_spread_of_renewals() {
        assert_eq!(budget(40, 0.6, 3).left(), Duration::from_secs(4));
        assert_eq!(budget(50, 0.6, 3).left(), Duration::from_millis(6_500));
        assert_eq!(budget(40, 0.6, 3).to_string(), "0.25 * 40s - 0.6 * 10s");
    }

    #[test]
    fn last_call_gives_its_reserve_when_expiry_comes_too_late() {
        assert_eq!(budget(40, 1.0, 3).left(), Duration::from_secs(3));
        assert_eq!(budget(40, 1.0, 3).to_string(), "last call, fenceReserve 3s");
        assert_eq!(budget(40, 1.0, 0).left(), Duration::ZERO);
    }

    #[test]
    fn a_grace_period_below_two_renewals_leaves_nothing() {
        assert_eq!(budget(20, 0.6, 3).left(), Duration::ZERO);
        assert_eq!(budget(1, 0.1, 3).renew_period(), Duration::from_secs(1));
        assert_eq!(budget(1, 0.1, 3).left(), Duration::from_millis(150));
    }
}
