//! One node's lease: when it was last renewed by our own clock, and what follows from that.
//!
//! `renewTime` is written by the node's clock, which may be wrong by anything. What we know for sure
//! is the *window* in which a value appeared: after the start of the last list without it, before
//! the end of the first list with it. A `renewTime` inside its window is believed; any other is
//! replaced by the window's start, the earliest the renewal can have been.

use std::time::Duration;

use crate::Time;
use crate::time::micros;

const SECOND: i64 = 1_000_000;

/// A value this far outside its window is still believed: requests take time, clocks are never
/// quite equal.
const CLOCK_TOLERANCE: i64 = SECOND;

/// A clock seen ahead of ours is distrusted until this many values in a row lay in their windows.
/// A value inside its window may still be later than the truth when the clock runs ahead by less
/// than the window; such a clock gives itself away sooner or later, and is remembered here.
const AHEAD_MEMORY: u8 = 32;

/// What is used of a Lease object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// The node's name.
    pub name: &'a str,
    /// `spec.renewTime`, by the node's clock.
    pub renew_time: Option<Time>,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: Option<i32>,
}

/// When a list request was sent, and when its answer was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Before the request was sent: nothing in the answer is older than this instant's state.
    pub start: Time,
    /// After the whole answer was read.
    pub end: Time,
}

/// The grace period and what is derived from it, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    grace: i64,
    expiry: i64,
    half: i64,
}

impl Limits {
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

    pub(crate) fn half(&self) -> i64 {
        self.half
    }

    pub(crate) fn quarter(&self) -> i64 {
        self.grace / 4
    }
}

/// What is known of one lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// `renewTime` as last listed.
    value: Option<Time>,
    /// When the value was written, on our timeline; [`Time::MIN`] if the lease was never renewed.
    renewal: Time,
    /// End of the first list that showed the value since standing last (re)started. The end, not
    /// the start: a list that stalls may show a value written long after the request was sent.
    standing_since: Time,
    /// The value appeared while we were watching without a gap. Until it stood 1.5 P, a lease that
    /// is not proven counts neither as expired nor as renewed.
    proven: bool,
    /// Values left until the node's clock is believed again; 0: it is.
    ahead: u8,
    /// A quarter of the lease's duration: the kubelet's renew period, before clamping.
    period: i64,
}

impl Heartbeat {
    /// A lease seen for the first time. `previous` is the last list, which did not have it.
    pub(crate) fn first(
        value: Option<Time>,
        duration_seconds: Option<i32>,
        listing: Listing,
        previous: Option<Listing>,
        restart: bool,
    ) -> Self {
        let mut heartbeat = Self {
            value,
            renewal: Time::MIN,
            standing_since: listing.end,
            proven: !restart,
            ahead: 0,
            period: period(duration_seconds),
        };
        heartbeat.date(listing, previous);
        heartbeat
    }

    /// The lease as the next list shows it. `restart`: standing starts anew for all leases.
    pub(crate) fn observe(
        &mut self,
        value: Option<Time>,
        duration_seconds: Option<i32>,
        listing: Listing,
        previous: Option<Listing>,
        restart: bool,
    ) {
        self.period = period(duration_seconds);
        let changed = value != self.value;
        if changed || restart {
            self.standing_since = listing.end;
            self.proven = !restart;
        }
        if changed {
            self.value = value;
            self.date(listing, previous);
        }
    }

    /// Puts the present value on our timeline.
    fn date(&mut self, listing: Listing, previous: Option<Listing>) {
        let Some(value) = self.value else {
            self.renewal = Time::MIN;
            return;
        };
        let latest = listing.end.plus(CLOCK_TOLERANCE);
        if value > latest {
            self.ahead = AHEAD_MEMORY;
        } else {
            self.ahead = self.ahead.saturating_sub(1);
        }
        self.renewal = match previous {
            // Nothing to compare with: the node's word, but never later than now.
            None => value.min(listing.end),
            Some(previous) => {
                let earliest = previous.start.plus(-CLOCK_TOLERANCE);
                let believed = self.ahead == 0 && value >= earliest;
                if believed {
                    value.min(listing.end)
                } else {
                    previous.start
                }
            }
        };
    }

    /// When the value was written, on our timeline.
    pub(crate) fn renewal(&self) -> Time {
        self.renewal
    }

    pub(crate) fn was_ever_renewed(&self) -> bool {
        self.value.is_some()
    }

    /// P, within what makes sense for this grace period.
    fn period(&self, limits: &Limits) -> i64 {
        // Not `clamp`: it panics where a tiny grace period turns the bounds round.
        self.period.max(SECOND).min(limits.half)
    }

    /// From when on the value has stood long enough to prove that nobody renews it.
    fn settled_at(&self, limits: &Limits) -> Time {
        let period = self.period(limits);
        let wait = if self.proven {
            period + period / 4
        } else {
            period + period / 2
        };
        self.standing_since.plus(wait)
    }

    /// From when on the lease counts as expired if nobody renews it.
    pub(crate) fn expires_at(&self, limits: &Limits) -> Time {
        self.renewal
            .plus(limits.expiry)
            .max(self.settled_at(limits))
    }

    /// From when on the node counts as silent if nobody renews its lease.
    pub(crate) fn silent_at(&self, limits: &Limits) -> Time {
        let patience = limits.half.max(2 * self.period(limits));
        self.renewal.plus(patience).max(self.settled_at(limits))
    }

    /// When kube-controller-manager may turn the node Unknown. One that was started by a release
    /// has no memory of renewals before that.
    pub(crate) fn deadline(&self, limits: &Limits, released: Time) -> Time {
        self.renewal.max(released).plus(limits.grace)
    }

    /// Whether standing was restarted too recently for the value to prove anything.
    pub(crate) fn is_unproven(&self, now: Time, limits: &Limits) -> bool {
        !self.proven && now < self.settled_at(limits)
    }

    /// Whether the lease was surely renewed at or after `instant`.
    pub(crate) fn renewed_since(&self, instant: Time, now: Time, limits: &Limits) -> bool {
        self.renewal >= instant && !self.is_unproven(now, limits)
    }
}

fn period(duration_seconds: Option<i32>) -> i64 {
    i64::from(duration_seconds.unwrap_or(40)) * SECOND / 4
}
