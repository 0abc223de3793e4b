//! Bounds on the error of a node's clock, learnt from the windows in which its values appeared.
//!
//! A value `v` that appeared between `from` and `to` was written in that window. So the node's
//! clock is ahead of the prober's by at least `v - to` and at most `v - from`. The bounds from many
//! values converge. A clock that may be right is believed to the microsecond. A clock that is
//! proven wrong is corrected by the upper bound, so that a renewal is never dated later than it
//! was.

use crate::Time;

/// A value may be this much older than its window and still be believed, because requests take
/// time. In microseconds.
const MAX_LATENESS: i64 = 1_000_000;

/// A clock may be this much ahead of the prober's and still be believed, because no two clocks are
/// equal. In microseconds. The value is small: only a wrong clock makes a value younger than its
/// window, and believing it would delay a fence.
const MAX_AHEAD: i64 = 100_000;

/// The number of consecutive late values after which the clock is considered set back.
///
/// A value later than the bounds allow was either written by a slow request, or its clock was set
/// back. Mistaking a slow request for a clock that was set back would date renewals too late.
const LATE_VALUES_TO_RESET: u8 = 8;

/// The bounds widen by one part in this many of the time that passes, to follow a drifting clock.
/// That is 244 parts per million, more than clocks drift.
const DRIFT_DIVISOR: i64 = 4_096;

/// The largest error of a clock, in microseconds. It is far beyond any real one.
const MAX_ERROR: i64 = 1 << 60;

/// The window in which a value was written: from the start of the last list without it to the end
/// of the first list with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenewalWindow {
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// Bounds on how far a node's clock is ahead of the prober's, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeClock {
    least: i64,
    most: i64,
    /// The instant at which the bounds were last narrowed.
    at: Time,
    /// The number of consecutive values that were later than the bounds allow.
    late_values: u8,
}

/// The fields of a [`NodeClock`] in their order, in microseconds.
pub(crate) type SavedNodeClock = (i64, i64, i64, u8);

impl From<NodeClock> for SavedNodeClock {
    fn from(clock: NodeClock) -> Self {
        let NodeClock {
            least,
            most,
            at,
            late_values,
        } = clock;
        (least, most, at.as_micros(), late_values)
    }
}

/// A record is not trusted: bounds that no values lead to could make sums overflow.
impl From<SavedNodeClock> for NodeClock {
    fn from((least, most, at, late_values): SavedNodeClock) -> Self {
        const LIMIT: i64 = 2 * MAX_ERROR;
        Self {
            least: least.clamp(-LIMIT, LIMIT),
            most: most.clamp(-LIMIT, LIMIT),
            at: Time::from_micros(at),
            late_values: late_values.min(LATE_VALUES_TO_RESET),
        }
    }
}

impl NodeClock {
    /// A clock about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        least: -MAX_ERROR,
        most: MAX_ERROR,
        at: Time::MIN,
        late_values: 0,
    };

    /// Learns from a value in the very first list, which ended at `seen`. The value was written
    /// before.
    pub(crate) fn observe_first(&mut self, value: Time, seen: Time) {
        self.least = distance(value, seen);
        self.at = seen;
    }

    /// Returns the instant at which `value` was written, on the prober's timeline. Narrows the
    /// bounds.
    #[inline]
    pub(crate) fn date(&mut self, value: Time, window: RenewalWindow) -> Time {
        let least = distance(value, window.to);
        let most = distance(value, window.from);
        let drift = distance(window.to, self.at).max(0) / DRIFT_DIVISOR;
        self.least -= drift;
        self.most += drift;
        self.at = window.to;
        let expected = if self.may_be_right() { 0 } else { self.least };
        if most < expected - MAX_LATENESS || least > self.most + MAX_AHEAD {
            return self.date_outlier(value, window);
        }
        self.late_values = 0;
        self.most = most.min(self.most);
        self.least = least.max(self.least).min(self.most);
        self.correct(value, window)
    }

    /// Dates a value that is later or earlier than the bounds allow.
    #[cold]
    fn date_outlier(&mut self, value: Time, window: RenewalWindow) -> Time {
        let least = distance(value, window.to);
        let most = distance(value, window.from);
        if least <= self.most + MAX_AHEAD && self.late_values + 1 < LATE_VALUES_TO_RESET {
            self.late_values += 1;
            return window.from;
        }
        // The clock was set. The old bounds would date renewals too late or too early.
        *self = Self {
            least,
            most,
            at: window.to,
            late_values: 0,
        };
        self.correct(value, window)
    }

    fn correct(&self, value: Time, window: RenewalWindow) -> Time {
        if self.may_be_right() {
            value.min(window.to)
        } else {
            value.plus(-self.most).max(window.from).min(window.to)
        }
    }

    fn may_be_right(&self) -> bool {
        self.least <= MAX_AHEAD && self.most >= -MAX_LATENESS
    }
}

/// Returns the microseconds from `b` to `a`, clamped to [`MAX_ERROR`] so that sums do not overflow.
fn distance(a: Time, b: Time) -> i64 {
    a.as_micros()
        .saturating_sub(b.as_micros())
        .clamp(-MAX_ERROR, MAX_ERROR)
}
