//! When the hub wants to be asked again.

use std::time::{Duration, SystemTime};

/// Longer than any tick: more is no different.
const LONGEST: Duration = Duration::from_hours(24);

/// How long to wait for a `Retry-After`, in seconds or as a date; nothing if it is neither. A date
/// that has passed is now.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only what is far too long does not fit.
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 21 Oct 2026 07:28:00 GMT.
    const NOW: u64 = 1_792_567_680;

    fn wait(text: &str) -> Option<u64> {
        let wait = retry_after(text, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
        wait.map(|wait| wait.as_secs())
    }

    #[test]
    fn it_is_seconds_or_a_date_in_any_of_the_three_forms() {
        for (text, expected) in [
            ("7", 7),
            (" 007 ", 7),
            ("0", 0),
            ("Wed, 21 Oct 2026 07:28:30 GMT", 30),
            ("Wednesday, 21-Oct-26 07:28:30 GMT", 30),
            ("Wed Oct 21 07:28:30 2026", 30),
        ] {
            assert_eq!(wait(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_date_that_has_passed_is_now() {
        assert_eq!(wait("Wed, 21 Oct 2026 07:28:00 GMT"), Some(0));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    }

    #[test]
    fn what_is_longer_than_any_tick_is_bounded() {
        let day = Some(86_400);
        for text in [
            "86401",
            "18446744073709551616",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ] {
            assert_eq!(wait(text), day, "{text}");
        }
    }

    #[test]
    fn anything_else_is_as_good_as_none() {
        for text in [
            "",
            "soon",
            "-1",
            "+1",
            "1.5",
            "1 2",
            "Wed, 21 Oct 2026",
            "٣",
        ] {
            assert_eq!(wait(text), None, "{text}");
        }
    }
}
