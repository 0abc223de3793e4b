//! Makes text safe and easy to read on a terminal.

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
