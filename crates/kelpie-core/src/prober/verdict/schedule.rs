//! The start of the next round.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::{Budget, ProbeSettings};

/// Rounds start at least this far apart. While a fence is being made they come at this pace.
const SECOND: Duration = Duration::from_secs(1);

/// Leases are listed this often while a trip or a deadline is near.
const PRESSED_INTERVAL: Duration = Duration::from_secs(2);

/// A failed list is repeated this soon while a trip or a deadline is near.
const PRESSED_RETRY: Duration = Duration::from_millis(300);

/// Leases are listed this often while a fence stands and lists fail or prove nothing. Controllers
/// are down as long.
const UNPROVEN_INTERVAL: Duration = Duration::from_secs(5);

/// A round at the trip instant may follow sooner than a second, but never in a busy loop: the
/// tenant's API server controls the content of the leases.
const TRIP_SPACING: Duration = Duration::from_millis(100);

/// The budget of rounds that start less than a second after the last one. An outage takes few of
/// them. A tenant can keep its trip instant just ahead for ever, or answer while it is pressed with
/// errors only.
pub(crate) const CLOSE_ROUNDS: Budget = Budget::new(120, Duration::from_secs(5));

/// Saves the budget of close rounds, whose size is a constant.
pub(crate) mod close_rounds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::CLOSE_ROUNDS;
    use crate::Time;
    use crate::prober::Budget;

    pub(crate) fn serialize<S: Serializer>(
        budget: &Budget,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        budget.full_at().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Budget, D::Error> {
        Time::deserialize(deserializer).map(|at| CLOSE_ROUNDS.with_full_at(at))
    }
}

/// The tenant controls `Retry-After`, so it is clamped to at most this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The start of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The instant at which the round starts.
    pub at: Time,
    /// The reason for that instant.
    pub reason: WakeReason,
}

/// The reason for the start of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WakeReason {
    /// The probe interval is over.
    Interval,
    /// Leases are listed at least every 0.3 G.
    Freshness,
    /// The first lease expires, which is the time to read the nodes.
    FirstExpiry,
    /// The cluster trips if no lease is renewed.
    Trip,
    /// The initial delay ends, and judging starts.
    FirstJudgement,
    /// A failed probe is repeated.
    Recheck,
    /// The API server is unhealthy and is given a pause.
    Pause,
    /// The API server answered with 429.
    Throttled,
    /// A trip or a deadline is near.
    Pressed,
    /// A fence is being made, or failures are being counted.
    Urgent,
    /// A round was due sooner, but the cluster has used up its budget of close rounds.
    Rationed,
}

/// A response with HTTP status 429.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// The `Retry-After` header, not clamped yet.
    pub retry_after: Option<Duration>,
}

/// The result of a round as far as the start of the next one depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RoundPace {
    /// A trip or a deadline is near.
    Pressed {
        has_failed: bool,
    },
    Throttled {
        by: Throttle,
    },
    /// A probe failed, but has not reached its threshold yet.
    Recheck,
    /// A fence stands, and nothing proves that it is still needed or can be lifted.
    Unproven,
    /// The API-server probe failed in this round and is unhealthy.
    Pause {
        length: Duration,
    },
    /// Leases or nodes could not be listed, this many times in a row.
    ListFailed {
        failures: u32,
    },
    Urgent,
    Steady {
        first_expiry: Option<Time>,
        first_judgement: Option<Time>,
    },
}

/// The start and end of a round, and the random number in [0, 1] that spreads the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTimes {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) jitter: f64,
}

impl RoundTimes {
    /// Returns the start of the next round of a healthy cluster.
    pub(crate) fn horizon(&self, settings: &ProbeSettings, grace: Duration) -> Wake {
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

    /// Returns the start of the next round. It never comes after the trip instant, nor after
    /// `overdue_from`, from which the evidence of the last list is at risk.
    pub(crate) fn next_wake(
        &self,
        pace: RoundPace,
        trip: Option<Time>,
        horizon: Wake,
        overdue_from: Option<Time>,
    ) -> Wake {
        let next = self.by_pace(pace, horizon);
        let soonest = self.end.max(self.start.after(TRIP_SPACING));
        let freshness = overdue_from.filter(|at| *at > self.end).map(|at| {
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

    /// Takes a wake-up that is less than a second after the start of this round from the budget.
    /// Puts it off to a second if the budget is used up. A review, which may be repeated within a
    /// round, takes nothing.
    pub(crate) fn ration(&self, wake: Wake, budget: &mut Budget, is_review: bool) -> Wake {
        let soonest = self.start.after(SECOND);
        if wake.at >= soonest {
            return wake;
        }
        let is_allowed = if is_review {
            budget.has(self.end)
        } else {
            budget.take(self.end)
        };
        if is_allowed {
            return wake;
        }
        Wake {
            at: soonest,
            reason: WakeReason::Rationed,
        }
    }

    fn by_pace(&self, pace: RoundPace, horizon: Wake) -> Wake {
        let wake = |at, reason| Wake { at, reason };
        match pace {
            RoundPace::Pressed { has_failed: true } => {
                wake(self.end.after(PRESSED_RETRY), WakeReason::Pressed)
            }
            // A trip instant after the horizon is not known.
            RoundPace::Pressed { has_failed: false } => {
                let next = wake(self.start.after(PRESSED_INTERVAL), WakeReason::Pressed);
                earlier(self.not_too_soon(next), horizon)
            }
            RoundPace::Throttled { by } => {
                let asked = by.retry_after.unwrap_or(MAX_RETRY_AFTER);
                let wait = asked.clamp(SECOND, MAX_RETRY_AFTER);
                self.not_too_soon(wake(self.end.after(wait), WakeReason::Throttled))
            }
            RoundPace::Recheck => wake(self.end.after(SECOND), WakeReason::Recheck),
            RoundPace::Unproven => {
                let next = wake(self.end.after(UNPROVEN_INTERVAL), WakeReason::Recheck);
                earlier(self.not_too_soon(next), horizon)
            }
            RoundPace::Pause { length } => {
                wake(self.end.after(length.max(SECOND)), WakeReason::Pause)
            }
            RoundPace::ListFailed { failures } => {
                let doubled = SECOND * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
                earlier(wake(self.end.after(doubled), WakeReason::Recheck), horizon)
            }
            RoundPace::Urgent => self.not_too_soon(wake(self.start, WakeReason::Urgent)),
            RoundPace::Steady {
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
            Self::Interval => "the probe interval ends",
            Self::Freshness => "leases are listed at least every 0.3 G",
            Self::FirstExpiry => "the first lease expires",
            Self::Trip => "the cluster trips unless leases are renewed",
            Self::FirstJudgement => "the initial delay ends",
            Self::Recheck => "a failed probe is repeated",
            Self::Pause => "the pause after an API-server failure ends",
            Self::Throttled => "the API server asked for a pause",
            Self::Pressed => "a trip or a deadline is near",
            Self::Urgent => "a fence is being made",
            Self::Rationed => "the cluster's budget of rounds in quick succession is used up",
        })
    }
}
