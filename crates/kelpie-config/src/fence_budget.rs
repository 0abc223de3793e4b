//! The time available for a fence.

use std::fmt;
use std::time::Duration;

use kelpie_core::Fraction;
use kelpie_core::prober::ProbeSettings;

use crate::GoDuration;

/// The default interval at which kubelets renew their leases.
const RENEW_PERIOD: Duration = Duration::from_secs(10);

/// The time between the trip of a fully disconnected cluster and its first node turning `Unknown`.
///
/// A cluster trips when the failure fraction f of its leases has expired, which each lease does
/// 0.75 G after its renewal. Renewals are spread over the kubelets' period P, so the trip comes f P
/// after the oldest lease has expired, and 0.25 G - f P remain. The last call can trip the cluster
/// earlier: `fenceReserve` before the deadline, once enough nodes have been silent long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FenceBudget {
    grace: Duration,
    fraction: Fraction,
    reserve: Duration,
}

impl FenceBudget {
    /// Computes the budget of clusters that do not override the grace period.
    pub fn of(settings: &ProbeSettings) -> Self {
        Self {
            grace: settings.grace,
            fraction: settings.failure_fraction,
            reserve: settings.fence_reserve,
        }
    }

    /// Returns the time that remains at the trip. Zero means that the first node turns `Unknown`
    /// before the cluster trips.
    pub fn remaining(&self) -> Duration {
        self.after_expiry().max(self.after_last_call())
    }

    /// Returns P, the renewal period: 10 s, but at most half of G.
    pub fn renew_period(&self) -> Duration {
        RENEW_PERIOD.min(self.grace / 2).max(Duration::from_secs(1))
    }

    /// Returns the delay between the first expired lease and the one that trips the cluster.
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

/// Displays the formula behind the number, such as `0.25 * 40s - 0.6 * 10s`.
impl fmt::Display for FenceBudget {
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

    fn budget(grace: u64, fraction: f64, reserve: u64) -> FenceBudget {
        FenceBudget {
            grace: Duration::from_secs(grace),
            fraction: Fraction::new(fraction).unwrap(),
            reserve: Duration::from_secs(reserve),
        }
    }

    #[test]
    fn remaining_time_accounts_for_renewal_spread() {
        assert_eq!(budget(40, 0.6, 3).remaining(), Duration::from_secs(4));
        assert_eq!(budget(50, 0.6, 3).remaining(), Duration::from_millis(6_500));
        assert_eq!(budget(40, 0.6, 3).to_string(), "0.25 * 40s - 0.6 * 10s");
    }

    #[test]
    fn last_call_provides_its_reserve() {
        assert_eq!(budget(40, 1.0, 3).remaining(), Duration::from_secs(3));
        assert_eq!(budget(40, 1.0, 3).to_string(), "last call, fenceReserve 3s");
        assert_eq!(budget(40, 1.0, 0).remaining(), Duration::ZERO);
    }

    #[test]
    fn short_grace_period_leaves_no_time() {
        assert_eq!(budget(20, 0.6, 3).remaining(), Duration::ZERO);
        assert_eq!(budget(1, 0.1, 3).renew_period(), Duration::from_secs(1));
        assert_eq!(budget(1, 0.1, 3).remaining(), Duration::from_millis(150));
    }
}
