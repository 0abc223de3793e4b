//! Schedules ticks.

use std::time::Duration;

use kelpie_core::fnv1a;

/// Schedules one tick per interval, starting at an offset that spreads the clusters of a hub over
/// the interval. Times are relative to the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickSchedule {
    offset: Duration,
    interval: Duration,
}

/// The start of the next tick, and the ticks skipped before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextTick {
    pub(crate) at: Duration,
    /// The number of ticks that are skipped before it.
    pub(crate) missed: u64,
}

impl TickSchedule {
    /// Creates the schedule of `cluster`. Without a name the first tick starts at once.
    pub(crate) fn new(cluster: Option<&str>, interval: Duration) -> Self {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        // A cluster keeps its offset across versions.
        let offset = cluster.map_or(0, |name| fnv1a(name.bytes()) % millis.max(1));
        Self {
            offset: Duration::from_millis(offset),
            interval,
        }
    }

    /// Returns the start of the first tick.
    pub(crate) const fn first(&self) -> Duration {
        self.offset
    }

    /// Returns the tick after the one that started at `last`. Ticks whose time has passed at `now`
    /// are skipped, so that ticks neither overlap nor pile up. A delay of up to a tenth of the
    /// interval is tolerated: otherwise a tick that uses its whole interval would skip the next
    /// one.
    pub(crate) fn next(&self, last: Duration, now: Duration) -> NextTick {
        let next = last + self.interval;
        let late = now.saturating_sub(next + self.interval / 10);
        let interval = self.interval.as_nanos().max(1);
        let missed = late.as_nanos().div_ceil(interval);
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        NextTick {
            at: next + self.interval * missed,
            missed: missed.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clusters_are_spread_over_interval() {
        let first = |name: &str| TickSchedule::new(Some(name), 300 * SECOND).first();
        let mut firsts: Vec<Duration> = (0..1_000)
            .map(|number| first(&format!("spoke-{number}")))
            .collect();
        firsts.sort();
        assert!(firsts.last() < Some(&(300 * SECOND)));
        // Each third of the interval has a fifth to a half of the clusters.
        for third in 0..3 {
            let within = 100 * third * SECOND..100 * (third + 1) * SECOND;
            let count = firsts.iter().filter(|at| within.contains(at)).count();
            assert!((200..500).contains(&count), "{third}: {count}");
        }
        assert_eq!(first("a"), first("a"));
        assert_eq!(TickSchedule::new(None, SECOND).first(), Duration::ZERO);
    }

    #[test]
    fn missed_ticks_are_skipped() {
        let schedule = TickSchedule::new(None, 10 * SECOND);
        let next = |now: u64| {
            let next = schedule.next(20 * SECOND, SECOND * u32::try_from(now).unwrap());
            (next.at.as_secs(), next.missed)
        };
        assert_eq!(next(21), (30, 0));
        assert_eq!(next(30), (30, 0), "a tick that took its whole interval");
        assert_eq!(next(31), (30, 0), "within the tolerance");
        assert_eq!(next(32), (40, 1));
        assert_eq!(next(59), (60, 3));
    }
}
