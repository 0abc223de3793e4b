//! When a cluster is looked at next.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::{Settings, Time};

/// Rounds start at least this far apart; also the pace when something is under way.
const SECOND: Duration = Duration::from_secs(1);

/// A round at the trip instant may follow sooner than a second, but never in a busy loop: the
/// tenant's API server decides what the leases say.
const TRIP_SPACING: Duration = Duration::from_millis(100);

/// `Retry-After` is the tenant's word: believed within these bounds.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The next look at a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wake {
    /// When.
    pub at: Time,
    /// What for.
    pub reason: WakeReason,
}

/// What the next look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WakeReason {
    /// The probe interval is over.
    Interval,
    /// Leases are listed at least every 0.3 G.
    Freshness,
    /// The first lease expires: time to read the nodes.
    FirstExpiry,
    /// The cluster would trip if nobody renewed.
    Trip,
    /// The initial delay ends: judging starts.
    FirstJudgement,
    /// A failed probe is looked at again.
    Recheck,
    /// The API server just turned unhealthy.
    Pause,
    /// The API server asked for less.
    Throttled,
    /// A fence is being made, or failures are being counted.
    Hurry,
}

/// A 429 answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// What the server asked for.
    pub retry_after: Option<Duration>,
}

/// How a round went, as far as the next one's time depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Throttled {
        by: Throttle,
        /// A trip or a deadline is near.
        is_pressed: bool,
    },
    /// A probe failed, and that is not yet final.
    Recheck,
    /// The API-server probe turned unhealthy in this round.
    Pause {
        length: Duration,
    },
    /// The leases, nodes or machines could not be listed, this many times in a row.
    ListFailed {
        failures: u32,
    },
    Hurry,
    Steady {
        first_expiry: Option<Time>,
        first_judgement: Option<Time>,
    },
}

/// When a round began and ended, and the random number in [0, 1] that spreads the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTimes {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) jitter: f64,
}

impl RoundTimes {
    /// The latest instant at which a healthy cluster is looked at again.
    pub(crate) fn horizon(&self, settings: &Settings, grace: Duration) -> Wake {
        let jitter = 1.0 + settings.jitter * self.jitter.clamp(0.0, 1.0);
        let interval = Duration::try_from_secs_f64(settings.probe_interval.as_secs_f64() * jitter)
            .unwrap_or(settings.probe_interval);
        let by_interval = Wake {
            at: self.end.after(interval),
            reason: WakeReason::Interval,
        };
        let by_freshness = Wake {
            at: self.start.after(grace.saturating_mul(3) / 10),
            reason: WakeReason::Freshness,
        };
        self.not_too_soon(earlier(by_interval, by_freshness))
    }

    /// When the next round starts. Whatever else is said, neither a trip instant is slept through nor
    /// the end of what the last list has proven. `horizon` is when a healthy cluster is looked at.
    pub(crate) fn next_wake(
        &self,
        pace: Pace,
        trip: Option<Time>,
        horizon: Wake,
        proof_ends: Option<Time>,
    ) -> Wake {
        let next = self.by_pace(pace, horizon);
        let soonest = self.end.max(self.start.after(TRIP_SPACING));
        let freshness = proof_ends.filter(|at| *at > self.end).map(|at| {
            self.not_too_soon(Wake {
                at,
                reason: WakeReason::Freshness,
            })
        });
        let next = freshness.map_or(next, |freshness| earlier(next, freshness));
        let at_trip = trip.map(|at| Wake {
            at: at.max(soonest),
            reason: WakeReason::Trip,
        });
        at_trip.map_or(next, |trip| earlier(trip, next))
    }

    fn by_pace(&self, pace: Pace, horizon: Wake) -> Wake {
        let wake = |at, reason| Wake { at, reason };
        match pace {
            Pace::Throttled { by, is_pressed } => {
                let asked = by.retry_after.unwrap_or(MAX_RETRY_AFTER);
                let most = if is_pressed { SECOND } else { MAX_RETRY_AFTER };
                let wait = asked.clamp(SECOND, most);
                self.not_too_soon(wake(self.end.after(wait), WakeReason::Throttled))
            }
            Pace::Recheck => wake(self.end.after(SECOND), WakeReason::Recheck),
            Pace::Pause { length } => wake(self.end.after(length.max(SECOND)), WakeReason::Pause),
            Pace::ListFailed { failures } => {
                let doubled = SECOND * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
                earlier(wake(self.end.after(doubled), WakeReason::Recheck), horizon)
            }
            Pace::Hurry => self.not_too_soon(wake(self.start, WakeReason::Hurry)),
            Pace::Steady {
                first_expiry,
                first_judgement,
            } => {
                let others = [
                    (first_expiry, WakeReason::FirstExpiry),
                    (first_judgement, WakeReason::FirstJudgement),
                ];
                let others = others
                    .into_iter()
                    .filter_map(|(at, reason)| at.map(|at| self.not_too_soon(wake(at, reason))));
                others.fold(horizon, |next, other| earlier(other, next))
            }
        }
    }

    fn not_too_soon(&self, wake: Wake) -> Wake {
        Wake {
            at: wake.at.max(self.end).max(self.start.after(SECOND)),
            ..wake
        }
    }
}

fn earlier(a: Wake, b: Wake) -> Wake {
    if a.at <= b.at { a } else { b }
}

impl fmt::Display for WakeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interval => "the probe interval",
            Self::Freshness => "leases are listed at least every 0.3 G",
            Self::FirstExpiry => "the first lease expires",
            Self::Trip => "the cluster would trip if nobody renewed",
            Self::FirstJudgement => "the initial delay ends",
            Self::Recheck => "a failed probe is repeated",
            Self::Pause => "a pause after the API server turned unhealthy",
            Self::Throttled => "the API server asked for patience",
            Self::Hurry => "something is under way",
        })
    }
}
