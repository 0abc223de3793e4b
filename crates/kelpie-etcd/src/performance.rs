//! Decides from the metrics whether a member is too slow, with hysteresis.
//!
//! A signal fails after it was above its limit for a while, and passes again only after it was
//! below half of it for longer. In between nothing changes, so a signal near its limit does not
//! move clients to and fro.

use std::time::Duration;

use tokio::time::Instant;

use crate::EtcdMetrics;
use crate::etcd_metrics::DurationTotal;

/// The limits above which a member is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerformanceLimits {
    /// The mean duration of writing the log to the disk.
    pub wal_fsync: Duration,
    /// The mean duration of a commit of the store.
    pub backend_commit: Duration,
    /// The number of entries that are committed and not applied.
    pub apply_backlog: u64,
}

impl Default for PerformanceLimits {
    /// Ten times the 99th percentiles that etcd recommends, and a fifth of the backlog with which
    /// etcd rejects writes.
    fn default() -> Self {
        Self {
            wal_fsync: Duration::from_millis(100),
            backend_commit: Duration::from_millis(250),
            apply_backlog: 1_000,
        }
    }
}

/// Minimum time over which a mean is taken.
const WINDOW: Duration = Duration::from_secs(5);

/// A signal fails once it was above its limit for this long.
const FAILS_AFTER: Duration = Duration::from_secs(10);

/// A signal passes again once it was below half of its limit for this long.
const PASSES_AFTER: Duration = Duration::from_secs(20);

/// The performance of a member over time.
#[derive(Clone, Debug)]
pub(crate) struct PerformanceHistory {
    limits: PerformanceLimits,
    /// The beginning of the current window, and the metrics then.
    window: Option<(Instant, EtcdMetrics)>,
    wal_fsync: Signal<Duration>,
    backend_commit: Signal<Duration>,
    apply_backlog: Signal<u64>,
}

impl PerformanceHistory {
    pub(crate) fn new(limits: PerformanceLimits) -> Self {
        Self {
            limits,
            window: None,
            wal_fsync: Signal::default(),
            backend_commit: Signal::default(),
            apply_backlog: Signal::default(),
        }
    }

    /// Records the metrics. The signals change at most once per window.
    pub(crate) fn record(&mut self, now: Instant, metrics: &EtcdMetrics) {
        let Some((since, first)) = &self.window else {
            self.window = Some((now, metrics.clone()));
            return;
        };
        if now.saturating_duration_since(*since) < WINDOW {
            return;
        }
        let limits = self.limits;
        let fsync = mean(first.wal_fsync, metrics.wal_fsync);
        let commit = mean(first.backend_commit, metrics.backend_commit);
        self.wal_fsync
            .record(now, fsync, limits.wal_fsync, limits.wal_fsync / 2);
        self.backend_commit.record(
            now,
            commit,
            limits.backend_commit,
            limits.backend_commit / 2,
        );
        let backlog = metrics.apply_backlog();
        self.apply_backlog
            .record(now, backlog, limits.apply_backlog, limits.apply_backlog / 2);
        self.window = Some((now, metrics.clone()));
    }

    /// Returns the text of each signal that fails.
    pub(crate) fn problems(&self) -> Vec<String> {
        let limits = self.limits;
        let slow = |signal: &Signal<Duration>, what, limit| {
            let last = signal.failing()?;
            Some(format!(
                "{what} takes {last:?} on average (limit {limit:?})"
            ))
        };
        let backlog = self.apply_backlog.failing().map(|last| {
            let limit = limits.apply_backlog;
            format!("{last} committed entries are not applied (limit {limit})")
        });
        let fsync = slow(&self.wal_fsync, "writing the log to disk", limits.wal_fsync);
        let commit = slow(
            &self.backend_commit,
            "a commit of the store",
            limits.backend_commit,
        );
        [fsync, commit, backlog].into_iter().flatten().collect()
    }
}

/// Returns the mean of what happened between two observations. `None` if nothing did, or if the
/// member was restarted.
fn mean(first: Option<DurationTotal>, last: Option<DurationTotal>) -> Option<Duration> {
    let (first, last) = (first?, last?);
    let count = last.count.checked_sub(first.count)?;
    let sum = last.sum.checked_sub(first.sum)?;
    let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
    Some(sum / count)
}

/// A measured value that fails and passes with hysteresis.
#[derive(Clone, Copy, Debug, Default)]
struct Signal<T> {
    fails: bool,
    /// The value has been on the other side since this instant.
    crossed: Option<Instant>,
    last: Option<T>,
}

impl<T: Copy + PartialOrd> Signal<T> {
    /// Records a value. An unknown value changes nothing: a disk that hangs completes no write.
    fn record(&mut self, now: Instant, value: Option<T>, limit: T, low: T) {
        let Some(value) = value else { return };
        self.last = Some(value);
        let has_crossed = if self.fails {
            value <= low
        } else {
            value > limit
        };
        if !has_crossed {
            self.crossed = None;
            return;
        }
        let since = *self.crossed.get_or_insert(now);
        let after = if self.fails {
            PASSES_AFTER
        } else {
            FAILS_AFTER
        };
        if now.saturating_duration_since(since) >= after {
            self.fails = !self.fails;
            self.crossed = None;
        }
    }

    /// Returns the last value if the signal fails.
    fn failing(&self) -> Option<T> {
        self.last.filter(|_| self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the signal fails after each value. The values are five seconds apart, and
    /// the limit is 100.
    fn states(values: &[Option<u64>]) -> String {
        let start = Instant::now();
        let mut signal = Signal::default();
        let mut at = start;
        let mut state = |value: &Option<u64>| {
            signal.record(at, *value, 100, 50);
            at += WINDOW;
            if signal.failing().is_some() { 'x' } else { '.' }
        };
        values.iter().map(&mut state).collect()
    }

    #[test]
    fn signals_have_hysteresis() {
        let (high, middle, low, none) = (Some(101), Some(75), Some(50), None);
        for (name, values, expected) in [
            ("fast", vec![low, low, low, low], "...."),
            ("at the limit", vec![Some(100); 4], "...."),
            ("slow", vec![high, high, high, high], "..xx"),
            (
                "a short peak",
                vec![high, high, middle, high, high],
                ".....",
            ),
            ("nothing happens", vec![high, none, none, high], "...x"),
            (
                "recovers late",
                vec![high, high, high, low, low, low, low, low],
                "..xxxxx.",
            ),
            (
                "not fast enough",
                vec![
                    high, high, high, middle, middle, middle, middle, middle, middle,
                ],
                "..xxxxxxx",
            ),
            (
                "recovery is interrupted",
                vec![high, high, high, low, low, low, low, middle, low],
                "..xxxxxxx",
            ),
            (
                "hangs after it was slow",
                vec![high, high, high, none, none, none, none, none],
                "..xxxxxx",
            ),
        ] {
            assert_eq!(states(&values), expected, "{name}");
        }
    }

    fn metrics(fsyncs: u64, mean: Duration, committed: u64) -> EtcdMetrics {
        let count = u32::try_from(fsyncs).unwrap();
        EtcdMetrics {
            wal_fsync: Some(DurationTotal {
                count: fsyncs,
                sum: mean * count,
            }),
            committed: Some(committed),
            applied: Some(0),
            ..EtcdMetrics::default()
        }
    }

    #[test]
    fn problems_name_value_and_limit() {
        let mut history = PerformanceHistory::new(PerformanceLimits::default());
        let start = Instant::now();
        for window in 0..4 {
            let at = start + WINDOW * window;
            let metrics = metrics(u64::from(window) * 10, Duration::from_millis(120), 1_500);
            history.record(at, &metrics);
        }
        assert_eq!(
            history.problems(),
            [
                "writing the log to disk takes 120ms on average (limit 100ms)",
                "1500 committed entries are not applied (limit 1000)",
            ]
        );
    }

    #[test]
    fn mean_needs_new_observations() {
        let total = |count, millis| {
            let sum = Duration::from_millis(millis);
            Some(DurationTotal { count, sum })
        };
        assert_eq!(
            mean(total(1, 10), total(3, 50)),
            Some(Duration::from_millis(20))
        );
        assert_eq!(mean(total(3, 50), total(3, 50)), None, "idle");
        assert_eq!(mean(total(3, 50), total(1, 10)), None, "restarted");
        assert_eq!(mean(None, total(1, 10)), None, "missing");
    }
}
