//! One node's lease: when it was last renewed by our own clock, and what follows from that.
//!
//! `renewTime` is written by the node's clock, which may be wrong by anything. What we know for sure
//! is the window in which a value appeared; [`Clock`] makes the best of that.

use crate::Time;
use crate::clock::{Clock, Window};
use crate::limits::Limits;

const SECOND: i64 = 1_000_000;

/// The duration of a lease that says none.
const USUAL_SECONDS: i32 = 40;

/// What is used of a Lease object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// The node's name.
    pub name: &'a str,
    /// `spec.renewTime`, by the node's clock; [`Time::MIN`] says as much as none.
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

/// A list as it bears on each of its leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    /// In which a value that is new in this list appeared; `None` in the very first list.
    pub(crate) window: Option<Window>,
    /// When the list was complete.
    pub(crate) end: Time,
    /// Standing starts anew for all leases.
    pub(crate) restart: bool,
}

/// What is known of one lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// `renewTime` as last listed; [`Time::MIN`] if there is none.
    value: Time,
    /// When the value was written, on our timeline; [`Time::MIN`] if the lease was never renewed.
    renewal: Time,
    /// End of the first list that showed the value since standing last (re)started. The end, not
    /// the start: a list that stalls may show a value written long after the request was sent.
    standing_since: Time,
    /// The value appeared while we were watching without a gap. Until it stood 1.5 P, a lease that
    /// is not proven counts neither as expired nor as renewed.
    proven: bool,
    clock: Clock,
    /// The lease's duration; the kubelet renews after a quarter of it.
    seconds: i32,
}

impl Heartbeat {
    /// A lease seen for the first time.
    pub(crate) fn first(
        value: Option<Time>,
        duration_seconds: Option<i32>,
        sighting: &Sighting,
    ) -> Self {
        let mut heartbeat = Self {
            value: value.unwrap_or(Time::MIN),
            renewal: Time::MIN,
            standing_since: sighting.end,
            proven: !sighting.restart,
            clock: Clock::UNKNOWN,
            seconds: duration_seconds.unwrap_or(USUAL_SECONDS),
        };
        heartbeat.date(sighting);
        heartbeat
    }

    /// The lease as the next list shows it; true if its value is a new one.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        value: Option<Time>,
        duration_seconds: Option<i32>,
        sighting: &Sighting,
    ) -> bool {
        self.seconds = duration_seconds.unwrap_or(USUAL_SECONDS);
        let value = value.unwrap_or(Time::MIN);
        let changed = value != self.value;
        if changed || sighting.restart {
            self.standing_since = sighting.end;
            self.proven = !sighting.restart;
        }
        if changed {
            self.value = value;
            self.date(sighting);
        }
        changed
    }

    /// Puts the present value on our timeline.
    #[inline]
    fn date(&mut self, sighting: &Sighting) {
        let value = self.value;
        if !self.was_ever_renewed() {
            self.renewal = Time::MIN;
            return;
        }
        self.renewal = if let Some(window) = sighting.window {
            self.clock.date(value, window)
        } else {
            // Nothing to compare with: the node's word, but never later than now.
            self.clock.meet(value, sighting.end);
            value.min(sighting.end)
        };
    }

    /// When the value was written, on our timeline.
    pub(crate) fn renewal(&self) -> Time {
        self.renewal
    }

    pub(crate) fn was_ever_renewed(&self) -> bool {
        self.value != Time::MIN
    }

    /// P, within what makes sense for this grace period.
    fn period(&self, limits: &Limits) -> i64 {
        let period = i64::from(self.seconds) * (SECOND / 4);
        // Not `clamp`: it panics where a tiny grace period turns the bounds round.
        period.max(SECOND).min(limits.half())
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
            .plus(limits.expiry())
            .max(self.settled_at(limits))
    }

    /// From when on the node counts as silent if nobody renews its lease.
    pub(crate) fn silent_at(&self, limits: &Limits) -> Time {
        let patience = limits.half().max(2 * self.period(limits));
        self.renewal.plus(patience).max(self.settled_at(limits))
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
