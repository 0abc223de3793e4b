//! Instants on the watchdog's own timeline.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// An instant, in microseconds since the Unix epoch.
///
/// The shell makes these from a monotonic clock that it anchored to the wall clock once, at start:
/// a step of the host's clock changes nothing. Times written by others (a lease's `renewTime`) are
/// values of the same type that may be arbitrarily wrong; all arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The latest representable instant: "never".
    pub const MAX: Self = Self(i64::MAX);
    /// The earliest representable instant.
    pub const MIN: Self = Self(i64::MIN);

    /// An instant from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// An instant from the seconds and nanoseconds of a Kubernetes `MicroTime`.
    pub const fn from_unix(seconds: i64, nanos: i32) -> Self {
        Self(
            seconds
                .saturating_mul(1_000_000)
                .saturating_add(nanos as i64 / 1_000),
        )
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if micros > 0 { micros.unsigned_abs() } else { 0 })
    }

    /// `duration` later, at most [`Time::MAX`].
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// `micros` later: for loops over leases, where converting a [`Duration`] would be felt.
    pub(crate) const fn plus(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// `duration` earlier, at least [`Time::MIN`].
    #[must_use]
    pub const fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }
}

/// Whole microseconds of a duration, saturating.
pub(crate) const fn micros(duration: Duration) -> i64 {
    let micros = duration.as_micros();
    if micros > i64::MAX as u128 {
        i64::MAX
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "just compared")]
        {
            micros as i64
        }
    }
}

/// RFC 3339 in UTC, the way Kubernetes prints a `MicroTime`; "never" beyond the calendar.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.6}"),
            Err(_) if self.0 > 0 => f.write_str("never"),
            Err(_) => f.write_str("the beginning of time"),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX.after(SECOND), Time::MAX);
        assert_eq!(Time::MIN.before(SECOND), Time::MIN);
        assert_eq!(Time::from_micros(0).after(Duration::MAX), Time::MAX);
        assert_eq!(Time::from_unix(i64::MAX, 999_999_999), Time::MAX);
        assert_eq!(
            Time::from_micros(5).since(Time::from_micros(9)),
            Duration::ZERO
        );
        assert_eq!(
            Time::MAX.since(Time::MIN),
            Duration::from_micros(i64::MAX.unsigned_abs())
        );
    }

    #[test]
    fn prints_as_kubernetes_does() {
        let time = Time::from_unix(1_700_000_000, 123_456_789);
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2023-11-14T22:13:20.123456Z\""
        );
        assert_eq!(Time::MAX.to_string(), "never");
        assert_eq!(Time::MIN.to_string(), "the beginning of time");
    }
}
