//! When a condition changed, as it is written.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Time;

/// An RFC 3339 time with whole seconds. What others wrote is kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(String);

impl Stamp {
    /// This instant, without its fraction of a second.
    pub fn at(time: Time) -> Self {
        let seconds = time.as_micros().div_euclid(1_000_000);
        let stamp = Timestamp::from_second(seconds).unwrap_or_default();
        Self(stamp.to_string())
    }

    /// What was written, if it is a time.
    pub fn time(&self) -> Option<Time> {
        let stamp: Timestamp = self.0.parse().ok()?;
        Some(Time::from_unix(stamp.as_second(), 0))
    }

    /// Whether both stand for the same second, however they are spelled.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.time(), other.time()) {
            (Some(one), Some(other)) => one == other,
            _ => self == other,
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_has_whole_seconds() {
        let stamp = Stamp::at(Time::from_micros(1_700_000_000_999_999));
        assert_eq!(stamp.to_string(), "2023-11-14T22:13:20Z");
        assert_eq!(stamp.time(), Some(Time::from_unix(1_700_000_000, 0)));
        assert_eq!(Stamp::at(Time::MAX).to_string(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn spellings_of_one_second_are_the_same() {
        let stamp = |text: &str| Stamp(text.to_owned());
        let plain = stamp("2023-11-14T22:13:20Z");
        assert!(plain.is_same(&stamp("2023-11-14T22:13:20.5Z")));
        assert!(plain.is_same(&stamp("2023-11-15T00:13:20+02:00")));
        assert!(!plain.is_same(&stamp("2023-11-14T22:13:21Z")));
        assert!(!plain.is_same(&stamp("yesterday")));
        assert!(stamp("yesterday").is_same(&stamp("yesterday")));
    }
}
