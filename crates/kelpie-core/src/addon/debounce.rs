//! Debouncing of a collector's failures.

use std::time::Duration;

use super::ForwardOutcome;
use crate::Time;

/// The number of consecutive failures before a failure is reported.
const MIN_FAILURES: u32 = 3;

/// Turns the results of a collector's ticks into reports. A process has one: workers that count
/// separately would contradict each other.
#[derive(Clone, Debug)]
pub struct Debounce {
    degrade_after: Duration,
    /// The number of consecutive failures, and the time of the first.
    failing: Option<(u32, Time)>,
}

impl Debounce {
    /// Creates a debounce that reports a failure after three consecutive failures, the first of
    /// which is at least `degrade_after` ago.
    pub const fn new(degrade_after: Duration) -> Self {
        Self {
            degrade_after,
            failing: None,
        }
    }

    /// Records the result of a tick and returns the outcome to report. A success is reported at
    /// once. Returns `None` while failures do not last long enough to be reported.
    pub fn tick(&mut self, succeeded: bool, now: Time) -> Option<ForwardOutcome> {
        if succeeded {
            self.failing = None;
            return Some(ForwardOutcome::Successful);
        }
        let (count, first) = self
            .failing
            .map_or((1, now), |(count, first)| (count.saturating_add(1), first));
        self.failing = Some((count, first));
        let is_degraded = count >= MIN_FAILURES && now.since(first) >= self.degrade_after;
        is_degraded.then_some(ForwardOutcome::Failure)
    }

    /// Returns the number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failing.map_or(0, |(count, _)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    /// Returns the report of each tick for a sequence of results, one minute apart.
    fn reports(results: &str, degrade_after: Duration) -> String {
        let mut debounce = Debounce::new(degrade_after);
        let mut now = Time::from_micros(0);
        let tick = |result: char| {
            now = now.after(MINUTE);
            match debounce.tick(result == 's', now) {
                Some(ForwardOutcome::Successful) => 'S',
                Some(ForwardOutcome::Failure) => 'F',
                None => '-',
            }
        };
        results.chars().map(tick).collect()
    }

    #[test]
    fn three_consecutive_failures_are_reported() {
        let none = Duration::ZERO;
        assert_eq!(reports("sfffsf", none), "S--FS-");
        assert_eq!(reports("ffff", none), "--FF");
        assert_eq!(reports("ffsffsffs", none), "--S--S--S");
    }

    #[test]
    fn failures_must_outlast_degrade_after() {
        assert_eq!(reports("fffffff", 5 * MINUTE), "-----FF");
        assert_eq!(reports("ffffsffff", 5 * MINUTE), "----S----");
    }

    #[test]
    fn alternating_failures_are_never_reported() {
        let reports = reports(&"sf".repeat(500), Duration::ZERO);
        assert_eq!(reports, "S-".repeat(500));
    }

    #[test]
    fn success_resets_failure_count() {
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
