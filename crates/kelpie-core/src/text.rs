//! Text for messages.

/// Cuts a text after this number of characters and marks the cut with an ellipsis.
pub fn truncated(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
