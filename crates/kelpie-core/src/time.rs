//! Instants on Kelpie's own timeline.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant, in microseconds since the Unix epoch.
///
/// The caller reads these from a monotonic clock that is anchored to the system clock once, at
/// start, so a step of the host's clock has no effect. Timestamps from other machines, such as a
/// lease's `renewTime`, have the same type and may be arbitrarily wrong. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// The text form of [`Time::MIN`].
const BEGINNING: &str = "the beginning of time";

/// The suffix of an instant that is written as microseconds.
const MICROS: &str = "us";

impl Time {
    /// The latest representable instant, which stands for "never".
    pub const MAX: Self = Self(i64::MAX);
    /// The earliest representable instant.
    pub const MIN: Self = Self(i64::MIN);

    /// Creates an instant from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Creates an instant from the seconds and nanoseconds of a Kubernetes `MicroTime`.
    pub const fn from_unix(seconds: i64, nanos: i32) -> Self {
        Self(
            seconds
                .saturating_mul(1_000_000)
                .saturating_add(nanos as i64 / 1_000),
        )
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if micros > 0 { micros.unsigned_abs() } else { 0 })
    }

    /// Returns the instant `duration` later, at most [`Time::MAX`].
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Returns the instant `micros` later. For loops over leases, in which converting a
    /// [`Duration`] is measurably slower.
    pub(crate) const fn plus(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Returns the instant `duration` earlier, at least [`Time::MIN`].
    #[must_use]
    pub const fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }
}

/// Converts a duration to whole microseconds, saturating.
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

/// Prints RFC 3339 in UTC, as Kubernetes prints a `MicroTime`. Instants that no calendar date can
/// express print as "never" or "the beginning of time".
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.6}"),
            Err(_) if self.0 > 0 => f.write_str("never"),
            Err(_) => f.write_str(BEGINNING),
        }
    }
}

/// Writes the text of [`Display`](fmt::Display), and instants that no calendar date can express as
/// microseconds, such as `9223372036854775000us`: hostile nodes write them, and a record repeats
/// them exactly.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_text = matches!(*self, Self::MIN | Self::MAX);
        if has_text || jiff::Timestamp::from_microsecond(self.0).is_ok() {
            return serializer.collect_str(self);
        }
        serializer.collect_str(&format_args!("{}{MICROS}", self.0))
    }
}

/// Reads the output of [`Serialize`]. Any other text becomes [`Time::MAX`].
impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.parse::<jiff::Timestamp>() {
            Ok(timestamp) => Self(timestamp.as_microsecond()),
            Err(_) if text == BEGINNING => Self::MIN,
            Err(_) => {
                let micros = text.strip_suffix(MICROS).and_then(|text| text.parse().ok());
                micros.map_or(Self::MAX, Self)
            }
        })
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

    #[test]
    fn json_round_trip() {
        for time in [
            Time::from_unix(1_700_000_000, 123_456_000),
            Time::MAX,
            Time::MIN,
            Time::from_micros(i64::MAX - 1),
            Time::from_micros(i64::MIN + 1),
            Time::from_micros(-1),
        ] {
            let json = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time);
        }
    }
}
