//! The true history of the nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::landscape::{LeaseRenewal, Timings};

/// The default of `nodeLeaseFailureFraction`.
const FAILURE_FRACTION: f64 = 0.6;

/// A fence may follow its decision with this delay on a loaded machine.
const SLACK: Duration = Duration::from_secs(15);

/// The resolution at which the time before a fence is checked.
const STEP: Duration = Duration::from_millis(100);

/// The history of all clusters, which tells whether a fence was justified.
#[derive(Debug)]
pub(super) struct NodeHistory {
    pub(super) timings: Timings,
    /// The same moment on both clocks, to convert between them.
    pub(super) anchor: (Timestamp, Instant),
    pub(super) clusters: BTreeMap<String, ClusterHistory>,
}

/// The history of one cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterHistory {
    /// The renewals of each node, in order.
    pub(super) renewals: Vec<Vec<LeaseRenewal>>,
    /// The start and the end of each outage of its API server, in order.
    pub(super) outages: Vec<(Instant, Instant)>,
}

impl NodeHistory {
    /// Returns true if the state of the nodes justifies a fence of this cluster at this time.
    pub(super) fn justifies_fence(&self, cluster: &str, at: Timestamp) -> bool {
        let Some(history) = self.clusters.get(cluster) else {
            return false;
        };
        let end = self.instant(at);
        let mut times = (0..=SLACK.as_millis() / STEP.as_millis())
            .filter_map(|steps| end.checked_sub(STEP * u32::try_from(steps).ok()?));
        times.any(|time| history.is_silent(time, self.timings))
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let (wall, instant) = self.anchor;
        let since = at.duration_since(wall);
        let distance = since.unsigned_abs();
        if since < SignedDuration::ZERO {
            instant.checked_sub(distance).unwrap_or(instant)
        } else {
            instant + distance
        }
    }
}

impl ClusterHistory {
    /// Returns true if the API server was up and enough nodes had not renewed for half the grace
    /// period.
    ///
    /// Where clocks are wrong, one and a half renewal periods are enough: a prober that has just
    /// started cannot know more. The tests on the simulator prove that kubelets get time to renew
    /// after an outage. This history cannot, because it does not know when a restarted server
    /// begins to serve.
    fn is_silent(&self, time: Instant, timings: Timings) -> bool {
        let mut outages = self.outages.iter();
        let is_up = outages.all(|(start, end)| time < *start || time >= *end);
        let silent = self.renewals.iter().filter(|renewals| {
            let last = renewals.iter().rev().find(|renewal| renewal.at <= time);
            last.is_some_and(|last| {
                let threshold = if last.clock_was_right {
                    timings.grace / 2
                } else {
                    timings.renewal * 3 / 2
                };
                time - last.at >= threshold
            })
        });
        #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
        let share = silent.count() as f64 / self.renewals.len().max(1) as f64;
        is_up && share >= FAILURE_FRACTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_during_outages_does_not_count() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let timings = Timings::QUICK;
        let renewal = |second| LeaseRenewal {
            at: at(second),
            clock_was_right: true,
        };
        let mut history = ClusterHistory {
            renewals: vec![
                vec![renewal(0), renewal(30)],
                vec![renewal(1)],
                vec![renewal(9), renewal(10)],
            ],
            outages: Vec::new(),
        };
        let is_silent = |history: &ClusterHistory, seconds| history.is_silent(at(seconds), timings);
        let silent = [4, 6, 12, 31].map(|seconds| is_silent(&history, seconds));
        assert_eq!(
            silent,
            [false, true, true, true],
            "two of three, then all but one"
        );
        history.outages = vec![(at(5), at(12))];
        let silent = [6, 11, 12].map(|seconds| is_silent(&history, seconds));
        assert_eq!(silent, [false, false, true]);
        let nodes = NodeHistory {
            timings,
            anchor: (Timestamp::UNIX_EPOCH, start),
            clusters: [("a".to_owned(), history)].into(),
        };
        let second = |second| Timestamp::from_second(second).unwrap();
        assert!(nodes.justifies_fence("a", second(20)));
        assert!(!nodes.justifies_fence("a", second(4)));
        assert!(!nodes.justifies_fence("b", second(20)));
    }

    #[test]
    fn wrong_clocks_shorten_the_threshold() {
        let start = Instant::now();
        let history = |clock_was_right| ClusterHistory {
            renewals: vec![vec![LeaseRenewal {
                at: start,
                clock_was_right,
            }]],
            outages: Vec::new(),
        };
        for (tenths, of_wrong, of_right) in
            [(14, false, false), (15, true, false), (40, true, true)]
        {
            let time = start + Duration::from_millis(100) * tenths;
            let is_silent =
                |clock_was_right| history(clock_was_right).is_silent(time, Timings::QUICK);
            assert_eq!(
                (is_silent(false), is_silent(true)),
                (of_wrong, of_right),
                "{tenths}"
            );
        }
    }
}
