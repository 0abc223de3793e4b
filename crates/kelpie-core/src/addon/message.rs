//! Messages are for people: one line, and short enough for a list.

/// Longer than any sentence; the API server takes 32 KB.
const LONGEST: usize = 1024;

/// Without what moves a cursor, and cut between characters.
pub(super) fn tidy(text: &str) -> String {
    let calm = |letter: char| if letter.is_control() { ' ' } else { letter };
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        None => text.chars().map(calm).collect(),
        Some((end, _)) => text[..end].chars().map(calm).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        assert_eq!(tidy(" a\nb\u{1b}[2J "), "a b [2J");
        let long = tidy(&"ä".repeat(5000));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert_eq!(tidy(&long).chars().count(), LONGEST + 1, "tidy is stable");
    }
}
