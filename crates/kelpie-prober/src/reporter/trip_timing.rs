//! The instants of a trip.

use std::collections::BTreeSet;

use kelpie_core::Time;

/// The instants that the speed of a fence is measured against.
#[derive(Debug)]
pub(super) struct TripTiming {
    pub(super) since: Time,
    /// The first deadline of the partition. A trip that comes too late has missed it already.
    deadline: Option<Time>,
    /// The targets that were measured already, by index.
    pub(super) measured: BTreeSet<usize>,
    /// The targets whose pods were seen to have stopped, by index.
    pub(super) stopped: BTreeSet<usize>,
}

impl TripTiming {
    pub(super) fn new(since: Time, deadline: Option<Time>) -> Self {
        Self {
            since,
            deadline,
            measured: BTreeSet::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// Returns the seconds left to the deadline; negative if it was missed.
    pub(super) fn margin(&self, at: Time) -> Option<f64> {
        let deadline = self.deadline?;
        Some(deadline.since(at).as_secs_f64() - at.since(deadline).as_secs_f64())
    }
}
