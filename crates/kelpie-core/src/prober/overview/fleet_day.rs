//! The last day of a fleet, in buckets of five minutes.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::condition::{ClusterCondition, Severity};
use super::fleet::FleetSummary;
use crate::Time;

/// The length of a bucket.
const BUCKET: Duration = Duration::from_mins(5);
/// The buckets of a day.
const BUCKETS: u32 = 288;

/// The last day of a fleet. Its memory does not depend on the number of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetDay {
    /// The length of a bucket in seconds.
    pub bucket_seconds: u64,
    /// The start of the first bucket.
    pub start: Time,
    /// The buckets, the oldest first. The last one has not ended.
    pub buckets: VecDeque<DayBucket>,
    /// The counts that hold now.
    #[serde(skip)]
    current: DayBucket,
}

/// The largest counts of a bucket's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DayBucket {
    /// The clusters that were watched.
    pub clusters: u32,
    /// The clusters that were fenced at the same time.
    pub fenced: u32,
    /// The clusters in another condition that needs an operator.
    pub troubled: u32,
    /// The clusters among them in a critical condition.
    pub critical: u32,
    /// The fences that began in this time.
    pub fences: u32,
}

impl FleetDay {
    /// Creates a day that begins at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            bucket_seconds: BUCKET.as_secs(),
            start: now,
            buckets: VecDeque::from([DayBucket::default()]),
            current: DayBucket::default(),
        }
    }

    /// Takes in the counts of an instant. They hold until the next ones.
    pub fn observe(&mut self, now: Time, counts: &FleetSummary) {
        self.advance(now);
        let of = |matches: &dyn Fn(ClusterCondition) -> bool| {
            let matching = counts.counts.iter().filter(|(it, _)| matches(**it));
            matching.map(|(_, count)| count).sum::<u32>()
        };
        let fenced = of(&|it| it == ClusterCondition::Fenced);
        let needing = of(&ClusterCondition::needs_you);
        self.current = DayBucket {
            clusters: counts.clusters,
            fenced,
            troubled: needing.saturating_sub(fenced),
            critical: of(&|it| it.severity() == Severity::Critical),
            fences: 0,
        };
        if let Some(bucket) = self.buckets.back_mut() {
            bucket.clusters = bucket.clusters.max(self.current.clusters);
            bucket.fenced = bucket.fenced.max(self.current.fenced);
            bucket.troubled = bucket.troubled.max(self.current.troubled);
            bucket.critical = bucket.critical.max(self.current.critical);
        }
    }

    /// Begins the buckets up to `now` with the current counts.
    fn advance(&mut self, now: Time) {
        let elapsed = now.since(self.start).as_micros() / BUCKET.as_micros();
        let wanted = u32::try_from(elapsed).unwrap_or(u32::MAX).saturating_add(1);
        let known = u32::try_from(self.buckets.len()).unwrap_or(u32::MAX);
        let missing = wanted.saturating_sub(known);
        for _ in 0..missing.min(BUCKETS) {
            self.buckets.push_back(self.current);
        }
        let kept = known.saturating_add(missing).min(BUCKETS);
        while self.buckets.len() > kept as usize {
            self.buckets.pop_front();
        }
        let gone = wanted.max(known) - kept;
        self.start = self.start.after(BUCKET.saturating_mul(gone));
    }

    /// Counts a fence that began.
    pub fn fence_began(&mut self) {
        if let Some(bucket) = self.buckets.back_mut() {
            bucket.fences = bucket.fences.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(minutes: i64) -> Time {
        Time::from_micros(minutes * 60_000_000)
    }

    fn counts(fenced: u32, blind: u32) -> FleetSummary {
        FleetSummary::new(BTreeMap::from([
            (ClusterCondition::Fenced, fenced),
            (ClusterCondition::Blind, blind),
            (ClusterCondition::Healthy, 100 - fenced - blind),
        ]))
    }

    #[test]
    fn bucket_has_the_worst_of_its_time() {
        let mut day = FleetDay::new(at(0));
        day.observe(at(0), &counts(0, 0));
        day.observe(at(1), &counts(7, 2));
        day.fence_began();
        day.observe(at(2), &counts(1, 0));
        day.observe(at(12), &counts(0, 0));
        let fenced: Vec<u32> = day.buckets.iter().map(|it| it.fenced).collect();
        // The counts of minute 2 held until minute 12, though nothing was observed in between.
        assert_eq!(fenced, [7, 1, 1]);
        assert_eq!((day.buckets[0].troubled, day.buckets[0].fences), (2, 1));
        assert_eq!((day.buckets[1].clusters, day.buckets[1].fences), (100, 0));
    }

    #[test]
    fn day_is_bounded() {
        let mut day = FleetDay::new(at(0));
        for minute in 0..3 * 24 * 60 {
            day.observe(at(minute), &counts(1, 1));
            assert!(day.buckets.len() <= BUCKETS as usize);
        }
        assert_eq!(day.start, at(2 * 24 * 60));
        day.observe(at(100_000), &counts(2, 0));
        assert_eq!(day.start, at(100_000 + 5 - 24 * 60));
        let fenced: Vec<u32> = day.buckets.iter().map(|it| it.fenced).collect();
        assert_eq!((fenced[0], fenced[287]), (1, 2));
    }
}
