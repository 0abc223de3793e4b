//! When a collector that fails says so.

use std::time::Duration;

use super::Forward;
use crate::Time;

/// Failures in a row before they are worth a word.
const ENOUGH: u32 = 3;

/// Turns the results of a collector's ticks into its word. One for the whole process: workers that
/// count for themselves contradict each other.
#[derive(Clone, Debug)]
pub struct Debounce {
    degrade_after: Duration,
    /// Of the failures in a row: how many, and when the first was.
    failing: Option<(u32, Time)>,
}

impl Debounce {
    /// Failures are told once there were three in a row, and the first of them is this long ago.
    pub const fn new(degrade_after: Duration) -> Self {
        Self {
            degrade_after,
            failing: None,
        }
    }

    /// A tick has ended: what there is to say now. `None`: it has failed, but not for long enough to
    /// say anything. A success is told at once.
    pub fn tick(&mut self, succeeded: bool, now: Time) -> Option<Forward> {
        if succeeded {
            self.failing = None;
            return Some(Forward::Successful);
        }
        let (count, first) = self
            .failing
            .map_or((1, now), |(count, first)| (count.saturating_add(1), first));
        self.failing = Some((count, first));
        let is_over = count >= ENOUGH && now.since(first) >= self.degrade_after;
        is_over.then_some(Forward::Failure)
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failing.map_or(0, |(count, _)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    /// What is said at each tick of a run of results, a minute apart.
    fn said(results: &str, degrade_after: Duration) -> String {
        let mut debounce = Debounce::new(degrade_after);
        let mut now = Time::from_micros(0);
        let tick = |result: char| {
            now = now.after(MINUTE);
            match debounce.tick(result == 's', now) {
                Some(Forward::Successful) => 'S',
                Some(Forward::Failure) => 'F',
                None => '-',
            }
        };
        results.chars().map(tick).collect()
    }

    #[test]
    fn three_failures_in_a_row_are_told_and_a_success_at_once() {
        let none = Duration::ZERO;
        assert_eq!(said("sfffsf", none), "S--FS-");
        assert_eq!(said("ffff", none), "--FF");
        assert_eq!(said("ffsffsffs", none), "--S--S--S");
    }

    #[test]
    fn time_has_to_pass_as_well() {
        assert_eq!(said("fffffff", 5 * MINUTE), "-----FF");
        assert_eq!(said("ffffsffff", 5 * MINUTE), "----S----");
    }

    #[test]
    fn one_failure_in_two_is_never_told() {
        let word = said(&"sf".repeat(500), Duration::ZERO);
        assert_eq!(word, "S-".repeat(500));
    }

    #[test]
    fn failures_are_counted_until_a_success() {
        let mut debounce = Debounce::new(MINUTE);
        let now = Time::from_micros(0);
        for expected in 1..=4 {
            debounce.tick(false, now);
            assert_eq!(debounce.failures(), expected);
        }
        debounce.tick(true, now);
        assert_eq!(debounce.failures(), 0);
    }
}
