//! The switch that pauses every watchdog of a Lease at run time.
//!
//! It is an annotation on the leader Lease, which each replica reads anyway. While it is on,
//! nothing new is fenced and no pod is deleted; restores go on. It ends by itself at the instant
//! that it names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Time, truncated};

/// The annotation that pauses: an instant in RFC 3339, or `true` until it is removed.
pub const PAUSE_ANNOTATION: &str = "kelpie.dev/paused-until";
/// The annotation with the reason, which is shown wherever the pause is.
pub const PAUSE_REASON_ANNOTATION: &str = "kelpie.dev/paused-because";

/// The value without an end.
const UNTIL_REMOVED: &str = "true";
/// Longer texts are cut: the annotations are written by hand.
const MAX_TEXT: usize = 200;

/// The position of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum PauseSwitch {
    /// There is no annotation.
    #[default]
    Off,
    /// Everything is paused, unless the end has passed.
    On {
        /// The end; `None` until the annotation is removed.
        until: Option<Time>,
        /// The reason; empty if none was given.
        reason: String,
    },
    /// The annotation cannot be read, so nothing is paused: a slip must not end the protection.
    Unreadable {
        /// The value, cut to a readable length.
        value: String,
    },
}

impl PauseSwitch {
    /// Reads the values of the two annotations.
    pub fn read(until: Option<&str>, reason: Option<&str>) -> Self {
        let Some(until) = until.map(str::trim) else {
            return Self::Off;
        };
        let end = match until {
            UNTIL_REMOVED => None,
            instant => match instant.parse::<jiff::Timestamp>() {
                Ok(end) => Some(Time::from_micros(end.as_microsecond())),
                Err(_) => {
                    return Self::Unreadable {
                        value: truncated(instant, MAX_TEXT),
                    };
                }
            },
        };
        Self::On {
            until: end,
            reason: truncated(reason.unwrap_or_default().trim(), MAX_TEXT),
        }
    }

    /// Returns whether nothing new may be fenced or deleted at `now`.
    pub fn is_paused(&self, now: Time) -> bool {
        match self {
            Self::Off | Self::Unreadable { .. } => false,
            Self::On { until, .. } => until.is_none_or(|until| now < until),
        }
    }

    /// Returns the switch as it counts at `now`: a pause that is over is off.
    #[must_use]
    pub fn at(self, now: Time) -> Self {
        match &self {
            Self::On { .. } if !self.is_paused(now) => Self::Off,
            _ => self,
        }
    }

    /// Returns the text of the annotation that pauses until an instant, or until it is removed.
    pub fn annotation(until: Option<Time>) -> String {
        until.map_or_else(|| UNTIL_REMOVED.to_owned(), |until| until.to_string())
    }
}

/// Prints the position in one sentence.
impl fmt::Display for PauseSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("not paused"),
            Self::On { until, reason } => {
                f.write_str("PAUSED: nothing is fenced and no pod is deleted ")?;
                match until {
                    Some(until) => write!(f, "until {until}")?,
                    None => f.write_str("until `kelpie resume`")?,
                }
                if reason.is_empty() {
                    return Ok(());
                }
                write!(f, ", because: {reason}")
            }
            Self::Unreadable { value } => write!(
                f,
                "not paused: the annotation {PAUSE_ANNOTATION} has {value:?}, which is neither an \
                 instant such as 2026-01-31T09:00:00Z nor `true`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Time {
        Time::from_unix(1_794_787_200 + second, 0)
    }

    #[test]
    fn pause_ends_by_itself() {
        let value = PauseSwitch::annotation(Some(at(60)));
        let switch = PauseSwitch::read(Some(&value), Some("maintenance"));
        assert!(switch.is_paused(at(59)));
        assert!(!switch.is_paused(at(60)));
        assert_eq!(switch.clone().at(at(60)), PauseSwitch::Off);
        assert!(switch.to_string().contains("because: maintenance"));
    }

    #[test]
    fn only_a_readable_value_pauses() {
        for (value, is_paused) in [
            (None, false),
            (Some(""), false),
            (Some("yes"), false),
            (Some("2h"), false),
            (Some("2026-13-45T00:00:00Z"), false),
            (Some("true"), true),
            (Some(" true\n"), true),
            (Some("9999-01-01T00:00:00Z"), true),
            (Some("1999-01-01T00:00:00Z"), false),
        ] {
            let switch = PauseSwitch::read(value, None);
            assert_eq!(switch.is_paused(at(0)), is_paused, "{value:?}");
        }
        let slip = PauseSwitch::read(Some("2h"), None).to_string();
        assert!(
            slip.starts_with("not paused") && slip.contains("\"2h\""),
            "{slip}"
        );
    }

    proptest! {
        #[test]
        fn written_pause_is_read_again(second in -1_000_000_i64..1_000_000, reason in ".{0,300}") {
            let value = PauseSwitch::annotation(Some(at(second)));
            let switch = PauseSwitch::read(Some(&value), Some(&reason));
            prop_assert_eq!(switch.is_paused(at(0)), second > 0);
            prop_assert!(switch.to_string().chars().count() < 400);
        }

        #[test]
        fn any_value_is_read(value in ".{0,400}", second in 0_i64..1_000_000) {
            let switch = PauseSwitch::read(Some(&value), Some(&value));
            // Nothing but an instant or the one word pauses.
            if switch.is_paused(at(second)) {
                let parsed = value.trim().parse::<jiff::Timestamp>();
                prop_assert!(value.trim() == "true" || parsed.is_ok());
            }
        }
    }
}
