//! Counts the samples of a stream.

use std::ops::AddAssign;

/// The reason that a new sample was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterCause {
    /// The sample is older than 24 hours.
    Old,
    /// The sample is more than five minutes ahead of the local clock. A hub that accepted it would
    /// refuse everything that follows.
    Future,
    /// Two labels have the same name, so the sample is ambiguous. A hub answers 500 to it.
    DuplicateLabel,
    /// Another sample of the series was on its way in this tick. That happens when two series
    /// differ only in elided labels, and when matchers overlap.
    Repeated,
    /// A name is not allowed in remote write, and names are not escaped.
    InvalidName,
}

impl FilterCause {
    /// All causes, in the order of their counters.
    pub const ALL: [Self; 5] = [
        Self::Old,
        Self::Future,
        Self::DuplicateLabel,
        Self::Repeated,
        Self::InvalidName,
    ];

    /// Returns the name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Future => "future",
            Self::DuplicateLabel => "duplicate_label",
            Self::Repeated => "repeated",
            Self::InvalidName => "invalid_name",
        }
    }
}

/// Counts the samples of a stream. Every sample in `read` is also in one of the other counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples read from the source.
    pub read: u64,
    /// Samples put into batches.
    pub sent: u64,
    /// Samples not sent again, because the hub already has the series at that timestamp.
    pub unchanged: u64,
    filtered: [u64; FilterCause::ALL.len()],
}

impl SampleCounts {
    /// Returns the number of samples that were dropped for this cause.
    pub fn filtered(&self, cause: FilterCause) -> u64 {
        self.filtered[cause as usize]
    }

    pub(crate) fn count_filtered(&mut self, cause: FilterCause) {
        self.filtered[cause as usize] += 1;
    }
}

impl AddAssign for SampleCounts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.sent += other.sent;
        self.unchanged += other.unchanged;
        for (sum, more) in self.filtered.iter_mut().zip(other.filtered) {
            *sum += more;
        }
    }
}
