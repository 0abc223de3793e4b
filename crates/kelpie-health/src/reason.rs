//! The reason for a failure, as a single clean line.

use std::fmt::{self, Write};

/// Maximum length in characters. Long enough for a chain of transport errors, short enough for the
/// Event of a failed probe.
const MAX_CHARACTERS: usize = 300;

/// The reason why a check failed, for the response body and the log.
///
/// It may quote an untrusted server, so it never has more than one line, more than 300 characters,
/// or characters that move a terminal's cursor or change the direction of the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FailureReason(String);

impl FailureReason {
    /// Formats any value, such as an error, as a reason.
    pub fn of(value: impl fmt::Display) -> Self {
        let mut line = SanitizedLine::default();
        // The write fails at the maximum length; the text up to there is kept.
        let _ = write!(line, "{value}");
        let text = line.text.trim();
        Self(if text.is_empty() { "no reason" } else { text }.to_owned())
    }

    /// Returns the text, which is never empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for FailureReason {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<String> for FailureReason {
    fn from(text: String) -> Self {
        Self::of(text)
    }
}

/// Text that is sanitized and truncated while it is written, so that a huge input costs nothing.
#[derive(Default)]
struct SanitizedLine {
    text: String,
    characters: usize,
}

impl Write for SanitizedLine {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.characters == MAX_CHARACTERS {
                self.text.pop();
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.text.push(if is_harmless(c) { c } else { ' ' });
            self.characters += 1;
        }
        Ok(())
    }
}

/// Returns false for characters that end a line, move the cursor or change the text direction.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_is_unchanged() {
        assert_eq!(
            FailureReason::from("connection refused").as_str(),
            "connection refused"
        );
        assert_eq!(
            FailureReason::of(format_args!("{} s", 4)),
            FailureReason::from("4 s".to_owned())
        );
    }

    #[test]
    fn hostile_text_forges_no_lines() {
        let hostile = "x\n[+]read_index ok\r\nok\u{2028}\u{1b}[2J\u{202e}y\0\u{85}";
        assert_eq!(
            FailureReason::from(hostile).to_string(),
            "x [+]read_index ok  ok  [2J y"
        );
    }

    #[test]
    fn reason_is_never_empty() {
        assert_eq!(FailureReason::from("").as_str(), "no reason");
        assert_eq!(FailureReason::from("\n \t").as_str(), "no reason");
    }

    #[test]
    fn long_reason_ends_with_an_ellipsis() {
        let long = FailureReason::from("ä".repeat(301));
        assert_eq!(long.as_str().chars().count(), 300);
        assert!(long.as_str().ends_with("ä…"));
        assert_eq!(
            FailureReason::from("ä".repeat(300)).as_str(),
            "ä".repeat(300)
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_line(text in any::<String>()) {
            let reason = FailureReason::from(text);
            prop_assert!(!reason.as_str().is_empty());
            prop_assert!(reason.as_str().chars().count() <= MAX_CHARACTERS);
            prop_assert!(reason.as_str().chars().all(is_harmless));
        }
    }
}
