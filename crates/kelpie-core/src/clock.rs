//! What is known of a node's clock, from nothing but the windows in which its values appeared.
//!
//! A value `v` that appeared between `from` and `to` was written then, so the node's clock ran ahead
//! of ours by `v - to` at least and `v - from` at most. Such bounds from many values meet close to
//! the truth. A clock that may be right is believed to the microsecond; one that is proven wrong is
//! corrected by the upper bound, so that a renewal is never dated later than it was.

use crate::Time;

/// A value may be this much older than its window and still be believed: requests take time.
const LATENESS: i64 = 1_000_000;

/// A clock may run this much ahead of ours and still be believed: no two clocks are equal. Nothing
/// but a wrong clock makes a value younger than its window, and believing one makes us late, so this
/// is small.
const AHEAD: i64 = 100_000;

/// A value that comes later than its clock allows was written by a slow request, or the clock was set
/// back. Taking the one for the other would date renewals too late, so it takes this many in a row to
/// believe in a clock that was set back.
const PERSISTENT: u8 = 8;

/// Bounds widen by one part in this many of the time that passes, so that a drifting clock is
/// followed: 244 parts per million, more than clocks drift.
const DRIFT: i64 = 4_096;

/// Farther than any clock can be off.
const FARTHEST: i64 = 1 << 60;

/// The time in which a value appeared: after the start of the last list without it, before the end
/// of the first list with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// Bounds of how far a node's clock runs ahead of ours, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    least: i64,
    most: i64,
    /// When they were last narrowed.
    at: Time,
    /// So many values in a row came later than the bounds allow.
    late: u8,
}

impl Clock {
    /// A clock nothing is known of.
    pub(crate) const UNKNOWN: Self = Self {
        least: -FARTHEST,
        most: FARTHEST,
        at: Time::MIN,
        late: 0,
    };

    /// Learns from a value that stood already when we first looked, at `seen`: it was written before.
    pub(crate) fn meet(&mut self, value: Time, seen: Time) {
        self.least = distance(value, seen);
        self.at = seen;
    }

    /// When `value` was written, on our timeline; learns from it.
    #[inline]
    pub(crate) fn date(&mut self, value: Time, window: Window) -> Time {
        let least = distance(value, window.to);
        let most = distance(value, window.from);
        let drift = distance(window.to, self.at).max(0) / DRIFT;
        self.least -= drift;
        self.most += drift;
        self.at = window.to;
        let expected = if self.may_be_right() { 0 } else { self.least };
        if most < expected - LATENESS || least > self.most + AHEAD {
            return self.surprise(value, window);
        }
        self.late = 0;
        self.most = most.min(self.most);
        self.least = least.max(self.least).min(self.most);
        self.correct(value, window)
    }

    /// A value that came later or earlier than the clock allows.
    #[cold]
    fn surprise(&mut self, value: Time, window: Window) -> Time {
        let least = distance(value, window.to);
        let most = distance(value, window.from);
        if least <= self.most + AHEAD && self.late + 1 < PERSISTENT {
            self.late += 1;
            return window.from;
        }
        // The clock was set: what was known would date renewals too late, or too early.
        *self = Self {
            least,
            most,
            at: window.to,
            late: 0,
        };
        self.correct(value, window)
    }

    fn correct(&self, value: Time, window: Window) -> Time {
        if self.may_be_right() {
            value.min(window.to)
        } else {
            value.plus(-self.most).max(window.from).min(window.to)
        }
    }

    fn may_be_right(&self) -> bool {
        self.least <= AHEAD && self.most >= -LATENESS
    }
}

/// How far `a` lies after `b`, in microseconds; [`FARTHEST`] at most, so that sums stay in range.
fn distance(a: Time, b: Time) -> i64 {
    a.as_micros()
        .saturating_sub(b.as_micros())
        .clamp(-FARTHEST, FARTHEST)
}
