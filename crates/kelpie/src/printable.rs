//! Makes untrusted text safe to print on a terminal.

/// Replaces control characters by spaces. Some printed text comes from the API servers of clusters,
/// which must not be able to move the cursor.
pub(crate) fn printable(text: &str) -> String {
    let replace = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(replace).collect()
}
