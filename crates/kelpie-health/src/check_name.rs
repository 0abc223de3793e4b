//! The name of a check: safe in a path, a query, a log line and a metric label.

use std::fmt;

/// Maximum length of a name.
const MAX_LENGTH: usize = 63;

/// A name of 1 to 63 lowercase letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckName(String);

impl CheckName {
    /// Returns `None` if the name would need escaping in a path, or is empty or too long.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
        let valid = (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(allowed);
        valid.then(|| Self(name.to_owned()))
    }

    /// Returns the name as it was registered.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_safe_names_are_accepted() {
        for name in ["read_index", "a", "loop-7", &"x".repeat(63)] {
            assert_eq!(CheckName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn other_names_are_rejected() {
        let long = "x".repeat(64);
        for name in [
            "", "A", "a b", "a/b", ".", "..", "a,b", "a%62", "ä", "a\nb", &long,
        ] {
            assert_eq!(CheckName::new(name), None, "{name:?}");
        }
    }
}
