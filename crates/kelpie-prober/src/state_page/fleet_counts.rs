//! The clusters of a fleet, counted by their condition as it changes.

use std::collections::BTreeMap;

use kelpie_core::Time;
use kelpie_core::prober::overview::{ClusterCondition, FleetDay, FleetSummary};

/// The counts of a fleet, and its last day. A probe adds to them only when its cluster's condition
/// changes.
#[derive(Debug, Default)]
pub(super) struct FleetCounts {
    by_condition: BTreeMap<ClusterCondition, u32>,
    /// `None` before the first change.
    day: Option<FleetDay>,
    /// The number of changes so far, by which pages learn of a new one.
    pub(super) changes: u64,
}

impl FleetCounts {
    pub(super) fn add(&mut self, condition: ClusterCondition) {
        *self.by_condition.entry(condition).or_default() += 1;
        self.changes += 1;
    }

    pub(super) fn remove(&mut self, condition: ClusterCondition) {
        if let Some(count) = self.by_condition.get_mut(&condition) {
            *count = count.saturating_sub(1);
        }
        self.changes += 1;
    }

    /// Moves a cluster from one condition to another.
    pub(super) fn change(&mut self, from: ClusterCondition, to: ClusterCondition, now: Time) {
        self.remove(from);
        self.add(to);
        self.observe(now);
    }

    pub(super) fn fence_began(&mut self, now: Time) {
        self.observe(now).fence_began();
    }

    pub(super) fn summary(&self) -> FleetSummary {
        FleetSummary::new(self.by_condition.clone())
    }

    /// Returns the last day up to `now`.
    pub(super) fn day(&mut self, now: Time) -> FleetDay {
        self.observe(now).clone()
    }

    fn observe(&mut self, now: Time) -> &mut FleetDay {
        let summary = self.summary();
        let day = self.day.get_or_insert_with(|| FleetDay::new(now));
        day.observe(now, &summary);
        day
    }
}
