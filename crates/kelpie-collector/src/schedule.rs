//! When ticks begin.

use std::time::Duration;

/// Ticks every interval, from an offset on that spreads the clusters of a hub. Times are since the
/// process began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    offset: Duration,
    interval: Duration,
}

/// A tick to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) at: Duration,
    /// Ticks since the last one whose time has passed.
    pub(crate) missed: u64,
}

impl Schedule {
    /// `cluster`: whose ticks; without a name they begin at once.
    pub(crate) fn new(cluster: Option<&str>, interval: Duration) -> Self {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let offset = cluster.map_or(0, |name| fnv1a(name) % millis.max(1));
        Self {
            offset: Duration::from_millis(offset),
            interval,
        }
    }

    /// When the first tick begins.
    pub(crate) const fn first(&self) -> Duration {
        self.offset
    }

    /// The tick after the one that began at `last`, at `now`. One whose time has passed is skipped:
    /// ticks neither overlap nor pile up. A moment does not count, or a tick that takes all of its
    /// time would cost the next one.
    pub(crate) fn next(&self, last: Duration, now: Duration) -> Next {
        let next = last + self.interval;
        let late = now.saturating_sub(next + self.interval / 10);
        let interval = self.interval.as_nanos().max(1);
        let missed = late.as_nanos().div_ceil(interval);
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        Next {
            at: next + self.interval * missed,
            missed: missed.into(),
        }
    }
}

/// FNV-1a: the same for ever, so that a cluster keeps its place among the others.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clusters_begin_at_different_times_within_an_interval() {
        let first = |name: &str| Schedule::new(Some(name), 300 * SECOND).first();
        let mut firsts: Vec<Duration> = (0..1_000)
            .map(|number| first(&format!("spoke-{number}")))
            .collect();
        firsts.sort();
        assert!(firsts.last() < Some(&(300 * SECOND)));
        // No third of the interval has more than its share and a half.
        for third in 0..3 {
            let within = 100 * third * SECOND..100 * (third + 1) * SECOND;
            let count = firsts.iter().filter(|at| within.contains(at)).count();
            assert!((200..500).contains(&count), "{third}: {count}");
        }
        assert_eq!(first("a"), first("a"));
        assert_eq!(Schedule::new(None, SECOND).first(), Duration::ZERO);
    }

    #[test]
    fn ticks_keep_their_times_and_missed_ones_are_skipped() {
        let schedule = Schedule::new(None, 10 * SECOND);
        let next = |now: u64| {
            let next = schedule.next(20 * SECOND, SECOND * u32::try_from(now).unwrap());
            (next.at.as_secs(), next.missed)
        };
        assert_eq!(next(21), (30, 0));
        assert_eq!(next(30), (30, 0), "a tick that took all of its time");
        assert_eq!(next(31), (30, 0), "a moment more");
        assert_eq!(next(32), (40, 1));
        assert_eq!(next(59), (60, 3));
    }
}
