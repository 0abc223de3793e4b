//! The settings of a probe.

use std::time::Duration;

use crate::Fraction;

/// The settings of a probe, already validated. `kelpie-config` reads them from files.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeSettings {
    /// The time between two rounds. `jitter` makes it longer.
    pub probe_interval: Duration,
    /// Rounds only observe until this much time has passed since the start.
    pub initial_delay: Duration,
    /// The time limit of a whole round.
    pub probe_timeout: Duration,
    /// The share of the interval by which a round may start later, so that the rounds of many
    /// clusters spread out.
    pub jitter: f64,
    /// The thresholds of the API-server probe and of the external probe.
    pub api_thresholds: Thresholds,
    /// The thresholds of the lease probe.
    pub lease_thresholds: Thresholds,
    /// The pause after the API-server probe turned unhealthy.
    pub api_failure_pause: Duration,
    /// G: kube-controller-manager's `--node-monitor-grace-period`. A cluster's own value takes
    /// precedence.
    pub grace: Duration,
    /// f: the share of expired candidates that trips the lease probe.
    pub failure_fraction: Fraction,
    /// The lease probe recovers when fewer than this share of the candidates have not renewed since
    /// the trip. At most `failure_fraction`.
    pub recovery_fraction: Fraction,
    /// The time before the deadline from which silent candidates suffice to trip, and the levels of
    /// a fence run in parallel. Zero turns both off.
    pub fence_reserve: Duration,
    /// With fewer candidates than this, no new fence is made.
    pub min_candidates: u32,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        let sixty_percent = Fraction::new(0.6).unwrap_or(Fraction::ONE);
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
            failure_fraction: sixty_percent,
            recovery_fraction: sixty_percent,
            fence_reserve: Duration::from_secs(3),
            min_candidates: 2,
        }
    }
}

/// The numbers of consecutive results that make a probe healthy or unhealthy. Both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The consecutive successes that make a probe healthy.
    pub success: u32,
    /// The consecutive failures that make a probe unhealthy.
    pub failure: u32,
}
