//! Errors that are logged once.

use std::collections::BTreeMap;

/// The current error of each subject, so that an error that repeats is reported once.
#[derive(Debug)]
pub struct LastErrors<K> {
    errors: BTreeMap<K, String>,
}

impl<K: Ord> LastErrors<K> {
    /// Records an error. Returns whether it differs from the current one.
    pub fn fail(&mut self, subject: K, error: &str) -> bool {
        let before = self.errors.insert(subject, error.to_owned());
        before.as_deref() != Some(error)
    }

    /// Records a success. Returns the error that is over.
    pub fn recover(&mut self, subject: &K) -> Option<String> {
        self.errors.remove(subject)
    }

    /// Drops the errors of some subjects.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.errors.retain(|subject, _| keep(subject));
    }

    /// Returns the current errors in the order of their subjects.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &str)> {
        let errors = self.errors.iter();
        errors.map(|(subject, error)| (subject, error.as_str()))
    }
}

impl<K> Default for LastErrors<K> {
    fn default() -> Self {
        Self {
            errors: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_error_is_reported_once() {
        let mut errors = LastErrors::default();
        assert!(errors.fail("a", "down"));
        assert!(!errors.fail("a", "down"));
        assert!(errors.fail("b", "down"), "each subject on its own");
        assert!(errors.fail("a", "slow"), "another error");
        assert_eq!(errors.recover(&"a").as_deref(), Some("slow"));
        assert_eq!(errors.recover(&"a"), None);
        assert!(errors.fail("a", "slow"), "again after a recovery");
        errors.retain(|subject| *subject == "b");
        assert_eq!(errors.iter().collect::<Vec<_>>(), [(&"b", "down")]);
    }
}
