//! One node's lease: its last renewal on the prober's timeline, and its expiry.
//!
//! `renewTime` comes from the node's clock, which may be arbitrarily wrong. Only the window in
//! which a value appeared is certain. [`NodeClock`] derives the renewal from both.

use serde::{Deserialize, Serialize};

use super::limits::GraceLimits;
use super::node_clock::{NodeClock, RenewalWindow, SavedNodeClock};
use super::outages::Outages;
use crate::Time;

const SECOND: i64 = 1_000_000;

/// The duration of a lease without `leaseDurationSeconds`.
const DEFAULT_DURATION_SECONDS: i32 = 40;

/// The fields of a Lease object that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// The name of the lease and of its node.
    pub name: &'a str,
    /// `spec.renewTime`, written by the node's clock. [`Time::MIN`] is treated like `None`.
    pub renew_time: Option<Time>,
    /// `spec.leaseDurationSeconds`; `None` stands for 40 s.
    pub duration_seconds: Option<i32>,
}

/// The start and end of a list request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSpan {
    /// An instant before the request was sent. Everything in the response is at least as new as the
    /// state at this instant.
    pub start: Time,
    /// An instant after the whole response was read.
    pub end: Time,
}

/// The facts about a list that apply to each of its leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListContext {
    /// The window in which a value that is new in this list was written; `None` in the first list.
    pub(crate) window: Option<RenewalWindow>,
    /// The instant at which the list was complete.
    pub(crate) end: Time,
    /// This is the first list, or the last one is too old. No earlier value proves anything.
    pub(crate) is_fresh_start: bool,
    /// The version of the list proves that it is current. Otherwise only the values tell.
    pub(crate) is_versioned: bool,
}

/// The state of one lease over successive lists.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "SavedHeartbeat", into = "SavedHeartbeat")]
pub(crate) struct Heartbeat {
    /// `renewTime` as last listed; [`Time::MIN`] if it is absent.
    value: Time,
    /// The value before that. If it comes back, the list is stale.
    former: Time,
    /// The instant at which the value was written, on the prober's timeline; [`Time::MIN`] if the
    /// lease was never renewed.
    renewal: Time,
    /// The end of the first list that showed the value, counted from the last fresh start. It is
    /// the end and not the start because a list that stalls may show a value written long after the
    /// request was sent.
    unchanged_since: Time,
    /// The value appeared while the leases were listed without a gap. A lease that is not proven
    /// counts neither as expired nor as renewed until its value was unchanged for 1.5 P.
    proven: bool,
    clock: NodeClock,
    /// The lease's duration. The kubelet renews after a quarter of it.
    seconds: i32,
}

/// The fields of a [`Heartbeat`] in their order, instants in microseconds. A record has one for
/// each node of every cluster, so names would be most of it.
type SavedHeartbeat = (i64, i64, i64, i64, bool, SavedNodeClock, i32);

impl From<Heartbeat> for SavedHeartbeat {
    fn from(heartbeat: Heartbeat) -> Self {
        (
            heartbeat.value.as_micros(),
            heartbeat.former.as_micros(),
            heartbeat.renewal.as_micros(),
            heartbeat.unchanged_since.as_micros(),
            heartbeat.proven,
            heartbeat.clock.into(),
            heartbeat.seconds,
        )
    }
}

impl From<SavedHeartbeat> for Heartbeat {
    fn from(saved: SavedHeartbeat) -> Self {
        let (value, former, renewal, unchanged_since, proven, clock, seconds) = saved;
        Self {
            value: Time::from_micros(value),
            former: Time::from_micros(former),
            renewal: Time::from_micros(renewal),
            unchanged_since: Time::from_micros(unchanged_since),
            proven,
            clock: clock.into(),
            seconds,
        }
    }
}

impl Heartbeat {
    /// Creates the state of a lease that is listed for the first time.
    pub(crate) fn first(
        value: Option<Time>,
        duration_seconds: Option<i32>,
        list: &ListContext,
    ) -> Self {
        let mut heartbeat = Self {
            value: value.unwrap_or(Time::MIN),
            former: Time::MIN,
            renewal: Time::MIN,
            unchanged_since: list.end,
            proven: !list.is_fresh_start,
            clock: NodeClock::UNKNOWN,
            seconds: duration_seconds.unwrap_or(DEFAULT_DURATION_SECONDS),
        };
        heartbeat.date(list);
        heartbeat
    }

    /// Takes in the lease from the next list. Returns whether it was renewed.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        value: Option<Time>,
        duration_seconds: Option<i32>,
        list: &ListContext,
    ) -> bool {
        self.seconds = duration_seconds.unwrap_or(DEFAULT_DURATION_SECONDS);
        let value = value.unwrap_or(Time::MIN);
        // A value that comes back is older than the one that replaced it.
        let changed = value != self.value && !(value < self.value && self.is_stale(value, list));
        if changed || list.is_fresh_start {
            self.unchanged_since = list.end;
            self.proven = !list.is_fresh_start;
        }
        if changed {
            self.former = self.value;
            self.value = value;
            self.date(list);
        }
        changed
    }

    /// Returns whether a value was replaced before, so that the list that shows it again is stale.
    #[cold]
    fn is_stale(&self, value: Time, list: &ListContext) -> bool {
        !list.is_versioned && value == self.former && value != Time::MIN
    }

    /// Dates the current value on the prober's timeline.
    #[inline]
    fn date(&mut self, list: &ListContext) {
        let value = self.value;
        if !self.was_ever_renewed() {
            self.renewal = Time::MIN;
            return;
        }
        self.renewal = if let Some(window) = list.window {
            self.clock.date(value, window)
        } else {
            // There is no window yet, so the node's clock is believed, but never beyond now.
            self.clock.observe_first(value, list.end);
            value.min(list.end)
        };
    }

    /// Returns the last renewal on the prober's timeline; [`Time::MIN`] if there was none.
    pub(crate) fn renewal(&self) -> Time {
        self.renewal
    }

    pub(crate) fn was_ever_renewed(&self) -> bool {
        self.value != Time::MIN
    }

    /// Returns P, clamped to 1 s at least and G/2 at most.
    fn period(&self, limits: &GraceLimits) -> i64 {
        let period = i64::from(self.seconds) * (SECOND / 4);
        // `clamp` would panic when a tiny grace period makes the lower bound exceed the upper one.
        period.max(SECOND).min(limits.half())
    }

    /// Returns the instant from which an unchanged value proves that the kubelet does not renew.
    fn conclusive_at(&self, limits: &GraceLimits) -> Time {
        let period = self.period(limits);
        let wait = if self.proven {
            period + period / 4
        } else {
            period + period / 2
        };
        self.unchanged_since.plus(wait)
    }

    /// Returns the instant from which the lease counts as expired unless it is renewed.
    pub(crate) fn expires_at(&self, limits: &GraceLimits) -> Time {
        self.renewal
            .plus(limits.expiry())
            .max(self.conclusive_at(limits))
    }

    /// Returns the instant from which the node counts as silent unless it renews its lease. The
    /// time of outages since its renewal does not count.
    pub(crate) fn silent_at(&self, limits: &GraceLimits, outages: &Outages) -> Time {
        let patience = limits.half().max(2 * self.period(limits));
        let patience = patience.saturating_add(outages.since(self.renewal));
        self.renewal.plus(patience).max(self.conclusive_at(limits))
    }

    /// Returns the instant from which the node is late with its next renewal.
    pub(crate) fn late_at(&self, limits: &GraceLimits) -> Time {
        self.renewal.plus(self.period(limits))
    }

    /// Returns whether the value was watched too briefly to prove anything, after a first list or a
    /// gap.
    pub(crate) fn is_unproven(&self, now: Time, limits: &GraceLimits) -> bool {
        !self.proven && now < self.conclusive_at(limits)
    }

    /// Returns whether the lease was certainly renewed at or after `instant`. A value that stands
    /// since the first list proves nothing: if the prober's clock is behind, it seems to be new.
    pub(crate) fn renewed_since(&self, instant: Time, now: Time, limits: &GraceLimits) -> bool {
        let has_changed = self.proven || self.former != Time::MIN;
        has_changed && self.renewal >= instant && !self.is_unproven(now, limits)
    }
}
