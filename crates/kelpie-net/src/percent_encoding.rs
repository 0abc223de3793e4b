//! Percent-encoding for URL queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Appends `text`, with everything but letters, digits and `-._~` percent-encoded.
pub fn percent_encode(text: &str, to: &mut String) {
    to.extend(utf8_percent_encode(text, ESCAPED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        let mut escaped = String::new();
        percent_encode("aZ0-._~ &+=%ä", &mut escaped);
        assert_eq!(escaped, "aZ0-._~%20%26%2B%3D%25%C3%A4");
        let mut of_clusters = "?cluster=".to_owned();
        percent_encode("shoot--dev--one", &mut of_clusters);
        percent_encode("a&b=ü /", &mut of_clusters);
        assert_eq!(of_clusters, "?cluster=shoot--dev--onea%26b%3D%C3%BC%20%2F");
    }
}
