//! What became of the samples of a stream.

use std::fmt;
use std::ops::AddAssign;

/// Why a sample was not sent although it was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Older than 24 hours.
    Old,
    /// More than five minutes ahead of our clock: a hub that took it would refuse all that follows.
    Future,
    /// Two labels of one name are left, and nobody knows which one is meant: a hub answers 500.
    DuplicateLabel,
    /// Its series was sent in this tick already, at this time or a later one. Happens when two
    /// series differ in nothing but elided labels, and when matchers overlap.
    Repeated,
}

impl Cause {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 4] = [
        Self::Old,
        Self::Future,
        Self::DuplicateLabel,
        Self::Repeated,
    ];

    /// As it stands in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Future => "future",
            Self::DuplicateLabel => "duplicate_label",
            Self::Repeated => "repeated",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What became of the samples of a stream: all that were read are in one of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Read from the source.
    pub read: u64,
    /// Put into batches.
    pub sent: u64,
    /// Not sent again: the hub has the series at this time.
    pub unchanged: u64,
    filtered: [u64; Cause::ALL.len()],
}

impl Tally {
    /// Samples that were dropped for this cause.
    pub fn filtered(&self, cause: Cause) -> u64 {
        self.filtered[cause as usize]
    }

    pub(crate) fn count(&mut self, cause: Cause) {
        self.filtered[cause as usize] += 1;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.sent += other.sent;
        self.unchanged += other.unchanged;
        for (sum, more) in self.filtered.iter_mut().zip(other.filtered) {
            *sum += more;
        }
    }
}
