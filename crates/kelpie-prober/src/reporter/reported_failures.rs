//! The failures of a fence that have an Event.

use std::collections::BTreeSet;

/// The failures of the current fence that have an Event. Their number is limited: an error with an
/// ever new text must neither fill the memory nor the seed.
#[derive(Debug, Default)]
pub(super) struct ReportedFailures {
    /// By target and error.
    texts: BTreeSet<(usize, String)>,
    /// The number of failures without an Event, because there were too many texts.
    pub(super) further: u64,
}

impl ReportedFailures {
    /// The number of texts per target.
    const MOST: usize = 8;

    /// Returns whether the failure has to be reported.
    pub(super) fn insert(&mut self, target: usize, error: &str) -> bool {
        let failure = (target, error.to_owned());
        if self.texts.contains(&failure) {
            return false;
        }
        let of_target = self.texts.iter().filter(|(index, _)| *index == target);
        if of_target.count() >= Self::MOST {
            self.further += 1;
            return false;
        }
        self.texts.insert(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ever_new_failures_are_bounded() {
        let mut failures = ReportedFailures::default();
        let reported = (0..1_000).filter(|number| failures.insert(0, &format!("error {number}")));
        assert_eq!(reported.count(), 8);
        assert_eq!((failures.texts.len(), failures.further), (8, 992));
        assert!(!failures.insert(0, "error 7"), "known");
        assert!(failures.insert(1, "error 7"), "another target");
    }
}
