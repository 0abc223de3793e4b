//! The `lastTransitionTime` of conditions.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Time;

/// An RFC 3339 time with whole seconds. The text of other writers is kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransitionTime(String);

impl TransitionTime {
    /// Formats an instant, without its fraction of a second.
    pub fn at(time: Time) -> Self {
        let seconds = time.as_micros().div_euclid(1_000_000);
        let timestamp = Timestamp::from_second(seconds).unwrap_or_default();
        Self(timestamp.to_string())
    }

    /// Parses the text. Returns `None` if it is not a time.
    pub fn time(&self) -> Option<Time> {
        let timestamp: Timestamp = self.0.parse().ok()?;
        Some(Time::from_unix(timestamp.as_second(), 0))
    }

    /// Returns true if both denote the same second, in any spelling. Texts that are not times are
    /// compared literally.
    #[must_use]
    pub fn is_same_second(&self, other: &Self) -> bool {
        match (self.time(), other.time()) {
            (Some(one), Some(other)) => one == other,
            _ => self == other,
        }
    }
}

impl fmt::Display for TransitionTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_whole_seconds() {
        let time = TransitionTime::at(Time::from_micros(1_700_000_000_999_999));
        assert_eq!(time.to_string(), "2023-11-14T22:13:20Z");
        assert_eq!(time.time(), Some(Time::from_unix(1_700_000_000, 0)));
        assert_eq!(
            TransitionTime::at(Time::MAX).to_string(),
            "1970-01-01T00:00:00Z"
        );
    }

    #[test]
    fn spelling_does_not_matter() {
        let time = |text: &str| TransitionTime(text.to_owned());
        let plain = time("2023-11-14T22:13:20Z");
        assert!(plain.is_same_second(&time("2023-11-14T22:13:20.5Z")));
        assert!(plain.is_same_second(&time("2023-11-15T00:13:20+02:00")));
        assert!(!plain.is_same_second(&time("2023-11-14T22:13:21Z")));
        assert!(!plain.is_same_second(&time("yesterday")));
        assert!(time("yesterday").is_same_second(&time("yesterday")));
    }
}
