//! What an operator may choose about judging a cluster.

use std::time::Duration;

use crate::Fraction;

/// The knobs of a probe, validated. `kelpie-config` makes these from files.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Period of the rounds; longer by up to `jitter` of itself.
    pub probe_interval: Duration,
    /// Rounds before this much time has passed only observe.
    pub initial_delay: Duration,
    /// Limit for one whole round.
    pub probe_timeout: Duration,
    /// Share of the interval by which a round may come later, so that clusters spread out.
    pub jitter: f64,
    /// Of the API-server probe and of the external probe.
    pub api_thresholds: Thresholds,
    /// Of the lease probe.
    pub lease_thresholds: Thresholds,
    /// Pause when the API-server probe has just turned unhealthy.
    pub api_failure_pause: Duration,
    /// G: kube-controller-manager's node monitor grace period. A cluster's own value replaces it.
    pub grace: Duration,
    /// f: share of expired candidates that trips the lease probe.
    pub failure_fraction: Fraction,
    /// The probe is well again when the candidates that have not renewed since the trip are fewer than
    /// this share; at most `failure_fraction`.
    pub recovery_fraction: Fraction,
    /// How long before the deadline order and patience end; zero: never.
    pub fence_reserve: Duration,
    /// Fewer candidates than this never cause a new fence.
    pub min_candidates: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let six_tenths = Fraction::new(0.6).unwrap_or(Fraction::ONE);
        Self {
            probe_interval: Duration::from_secs(10),
            initial_delay: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(30),
            jitter: 0.2,
            api_thresholds: Thresholds {
                success: 1,
                failure: 3,
            },
            lease_thresholds: Thresholds {
                success: 1,
                failure: 1,
            },
            api_failure_pause: Duration::from_secs(30),
            grace: Duration::from_secs(40),
            failure_fraction: six_tenths,
            recovery_fraction: six_tenths,
            fence_reserve: Duration::from_secs(3),
            min_candidates: 2,
        }
    }
}

/// How many equal results in a row make a probe healthy or unhealthy; both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Successes in a row for healthy.
    pub success: u32,
    /// Failures in a row for unhealthy.
    pub failure: u32,
}
