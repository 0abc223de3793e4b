//! Messages of conditions: one line each, and short enough for a list.

use crate::truncated;

/// The limit in characters. The API server accepts 32 KB.
const MAX_CHARS: usize = 1024;

/// Replaces control characters by spaces and truncates long messages at a character boundary.
pub(super) fn sanitize(text: &str) -> String {
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    let text = truncated(text.trim(), MAX_CHARS);
    text.chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_one_bounded_line() {
        assert_eq!(sanitize(" a\nb\u{1b}[2J "), "a b [2J");
        let long = sanitize(&"ä".repeat(5000));
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert_eq!(
            sanitize(&long).chars().count(),
            MAX_CHARS + 1,
            "sanitize is idempotent"
        );
    }
}
