//! The name of a check: safe in a path, a query, a log line and a metric label.

use std::fmt;

/// Longest name of a check.
const LONGEST: usize = 63;

/// A name of lowercase letters, digits, `_` and `-`; at most 63 of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckName(String);

impl CheckName {
    /// None if the name could not stand unescaped in a path.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
        let good = (1..=LONGEST).contains(&name.len()) && name.bytes().all(fits);
        good.then(|| Self(name.to_owned()))
    }

    /// The name as it was registered.
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
    fn names_that_need_no_escape_are_taken() {
        for name in ["read_index", "a", "loop-7", &"x".repeat(63)] {
            assert_eq!(CheckName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_would_need_one_are_refused() {
        let long = "x".repeat(64);
        for name in [
            "", "A", "a b", "a/b", ".", "..", "a,b", "a%62", "ä", "a\nb", &long,
        ] {
            assert_eq!(CheckName::new(name), None, "{name:?}");
        }
    }
}
