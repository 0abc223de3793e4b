//! Parses `Retry-After`.

use std::time::{Duration, SystemTime};

/// The upper bound of a wait, so that a wrong date does not stop a collector for good.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// Returns the wait for a `Retry-After` header, which has seconds or a date. Returns `None` for any
/// other text, and zero for a date in the past.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only numbers that are far too large do not parse.
        text.parse().map_or(MAX_WAIT, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(MAX_WAIT))
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
    fn seconds_and_all_date_formats_are_parsed() {
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
    fn past_date_means_no_wait() {
        assert_eq!(wait("Wed, 21 Oct 2026 07:28:00 GMT"), Some(0));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    }

    #[test]
    fn long_waits_are_bounded() {
        let hour = Some(3_600);
        for text in [
            "3601",
            "18446744073709551616",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ] {
            assert_eq!(wait(text), hour, "{text}");
        }
    }

    #[test]
    fn invalid_values_are_ignored() {
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
