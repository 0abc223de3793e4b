//! Makes text safe and easy to read on a terminal.

use std::time::Duration;

use jiff::Timestamp;
use kelpie_core::Time;

/// Replaces control characters by spaces. Some printed text comes from the API servers of clusters,
/// which must not be able to move the cursor.
pub(crate) fn printable(text: &str) -> String {
    let replace = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(replace).collect()
}

/// Rewrites the RFC 3339 instants of a text for people.
pub(crate) fn readable_instants(text: &str) -> String {
    let word = |word: &str| {
        let (bare, comma) = match word.strip_suffix(',') {
            Some(bare) => (bare, ","),
            None => (word, ""),
        };
        match bare.parse::<Timestamp>() {
            Ok(at) => readable_instant(Time::from_micros(at.as_microsecond())) + comma,
            Err(_) => word.to_owned(),
        }
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    words.join(" ")
}

/// Formats an instant for people.
pub(crate) fn readable_instant(instant: Time) -> String {
    match Timestamp::from_microsecond(instant.as_micros()) {
        Ok(at) => format!("{} UTC", at.strftime("%F %T%.1f")),
        Err(_) => "no instant on the calendar".to_owned(),
    }
}

/// Formats a length of time in the unit that people would use.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs_f64();
    let (minutes, hours) = (seconds / 60.0, seconds / 3_600.0);
    if seconds < 90.0 {
        format!("{seconds:.1} s")
    } else if minutes < 90.0 {
        format!("{minutes:.0} min")
    } else if hours < 48.0 {
        format!("{hours:.0} h")
    } else {
        format!("{:.0} days", hours / 24.0)
    }
}
