//! Words of others, safe to show on a terminal.

/// Without what moves the cursor: a cluster's API server has a say in some of these words.
pub(crate) fn printable(text: &str) -> String {
    let calm = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(calm).collect()
}
