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
    /// The last value was later in coming than the bounds allow: a slow request, or a clock that was
    /// set back. The next one tells.
    doubted: bool,
}

impl Clock {
    /// A clock nothing is known of.
    pub(crate) const UNKNOWN: Self = Self {
        least: -FARTHEST,
        most: FARTHEST,
        at: Time::MIN,
        doubted: false,
    };

    /// When `value` was written, on our timeline; learns from it.
    pub(crate) fn date(&mut self, value: Time, window: Window) -> Time {
        let least = distance(value, window.to);
        let most = distance(value, window.from);
        let drift = distance(window.to, self.at).max(0) / DRIFT;
        let known = (self.least - drift, self.most + drift);
        let is_slow = most < known.0 - LATENESS && !self.doubted;
        self.at = window.to;
        self.doubted = is_slow;
        if is_slow {
            (self.least, self.most) = known;
            return window.from;
        }
        let is_void = least > known.1 + AHEAD || most < known.0 - LATENESS;
        (self.least, self.most) = if is_void {
            // The clock was set: what was known would date renewals too late, or too early.
            (least, most)
        } else {
            let most = most.min(known.1);
            (least.max(known.0).min(most), most)
        };
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
