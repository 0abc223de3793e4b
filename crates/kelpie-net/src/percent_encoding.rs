//! Percent-encoding for URL queries.

/// Appends `text`, with everything but letters, digits and `-._~` percent-encoded.
pub fn percent_encode(text: &str, to: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(byte.into());
        } else {
            let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
            to.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
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
