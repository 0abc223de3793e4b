//! Why a check failed: one line, whatever it is made from.

use std::fmt::{self, Write};

/// Longest reason, in characters. Long enough for a chain of transport errors, short enough for a
/// probe's event.
const LONGEST: usize = 300;

/// Why a check failed, for the answer's body and the log.
///
/// It may carry text of a foreign server, so it never has more than one line, more than 300
/// characters, or anything that moves a terminal's cursor or turns the direction of the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reason(String);

impl Reason {
    /// Takes the words of anything that can be shown, an error for one.
    pub fn of(what: impl fmt::Display) -> Self {
        let mut line = Line::default();
        // The line refuses more than it can hold; what fits is kept.
        let _ = write!(line, "{what}");
        let text = line.text.trim();
        Self(if text.is_empty() { "no reason" } else { text }.to_owned())
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::of(text)
    }
}

/// Text that is cleaned while it is written, so that a huge one costs nothing.
#[derive(Default)]
struct Line {
    text: String,
    characters: usize,
}

impl Write for Line {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.characters == LONGEST {
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

/// False for what ends a line, moves the cursor or turns the direction of the text.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reason_keeps_its_words() {
        assert_eq!(
            Reason::from("connection refused").as_str(),
            "connection refused"
        );
        assert_eq!(
            Reason::of(format_args!("{} s", 4)),
            Reason::from("4 s".to_owned())
        );
    }

    #[test]
    fn a_hostile_reason_forges_no_lines() {
        let hostile = "x\n[+]read_index ok\r\nok\u{2028}\u{1b}[2J\u{202e}y\0\u{85}";
        assert_eq!(
            Reason::from(hostile).to_string(),
            "x [+]read_index ok  ok  [2J y"
        );
    }

    #[test]
    fn a_reason_is_never_empty() {
        assert_eq!(Reason::from("").as_str(), "no reason");
        assert_eq!(Reason::from("\n \t").as_str(), "no reason");
    }

    #[test]
    fn a_long_reason_ends_with_an_ellipsis() {
        let long = Reason::from("ä".repeat(301));
        assert_eq!(long.as_str().chars().count(), 300);
        assert!(long.as_str().ends_with("ä…"));
        assert_eq!(Reason::from("ä".repeat(300)).as_str(), "ä".repeat(300));
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_line(text in any::<String>()) {
            let reason = Reason::from(text);
            prop_assert!(!reason.as_str().is_empty());
            prop_assert!(reason.as_str().chars().count() <= LONGEST);
            prop_assert!(reason.as_str().chars().all(is_harmless));
        }
    }
}
