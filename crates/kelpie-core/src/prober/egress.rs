//! The prober's own egress: whether external probes fail because of the clusters or of ourselves.
//!
//! The external probe of a cluster takes the path that its kubelets use. When the external probes
//! of most clusters fail at the same time while kubelets keep renewing their leases, the common
//! cause is the way out of the prober's own network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::probe_status::ProbeResult;

/// External probes that begin to fail within this time fail together.
const TOGETHER: Duration = Duration::from_secs(30);
/// Fewer clusters than this say nothing about the prober's egress.
const MIN_CLUSTERS: u32 = 3;

/// The prober's own egress, as the external probes of all clusters show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressState {
    /// External probes of other clusters succeed, or there are too few of them to tell.
    Works,
    /// The external probe of this cluster fails, and too few of the others were repeated since.
    Unclear,
    /// Most external probes began to fail together while leases were renewed.
    Suspected {
        /// The clusters whose external probes fail while their leases are renewed.
        failing: u32,
        /// The clusters whose external probes have succeeded before.
        probed: u32,
    },
}

/// The external probes of all clusters.
///
/// A suspicion begins when more than half of the probes that have succeeded before, and at least
/// three, began to fail within 30 s while the leases of their clusters were renewed. It lasts for
/// as long as that many fail.
#[derive(Debug, Default)]
pub struct EgressTracker {
    /// The clusters whose external probes have succeeded before.
    paths: BTreeMap<Arc<str>, ProbedPath>,
    is_suspected: bool,
}

/// The external probe of one cluster.
#[derive(Debug, Default)]
struct ProbedPath {
    last_success: Time,
    /// The first failure since the last success, and since the last suspicion.
    failing_since: Option<Time>,
    leases_renewed: bool,
}

impl EgressTracker {
    /// Takes in a result that arrived at `at`, and whether the leases of the cluster are renewed.
    pub fn record(
        &mut self,
        cluster: &Arc<str>,
        result: ProbeResult,
        at: Time,
        leases_renewed: bool,
    ) {
        if result == ProbeResult::Success && !self.paths.contains_key(cluster) {
            let path = ProbedPath::default();
            self.paths.insert(Arc::clone(cluster), path);
        }
        // A path that never worked says nothing about what has changed.
        let Some(path) = self.paths.get_mut(cluster) else {
            return;
        };
        path.leases_renewed = leases_renewed;
        match result {
            ProbeResult::Success => {
                path.last_success = at;
                path.failing_since = None;
            }
            ProbeResult::Failure => {
                path.failing_since.get_or_insert(at);
            }
            ProbeResult::Transient => {}
        }
        if self.is_suspected {
            self.end_suspicion();
        } else if result == ProbeResult::Failure {
            let together = at.before(TOGETHER);
            let began = |path: &ProbedPath| path.failing_since.is_some_and(|at| at >= together);
            self.is_suspected = self.is_most(self.count_renewed(began));
        }
    }

    /// Removes a cluster that is no longer probed.
    pub fn remove(&mut self, cluster: &str) {
        self.paths.remove(cluster);
        self.end_suspicion();
    }

    /// Returns the state of the egress, for a decision about a cluster whose external probe fails.
    pub fn state(&self, cluster: &str, now: Time) -> EgressState {
        if self.is_suspected {
            return EgressState::Suspected {
                failing: self.count_failing(),
                probed: self.probed(),
            };
        }
        let Some(since) = self.paths.get(cluster).and_then(|path| path.failing_since) else {
            return EgressState::Works;
        };
        // Those that have not succeeded since may be about to fail too.
        let may_fail = self.count_renewed(|path| path.last_success <= since);
        if self.is_most(may_fail) && now < since.after(TOGETHER) {
            EgressState::Unclear
        } else {
            EgressState::Works
        }
    }

    /// Returns whether the prober's own egress is suspected.
    pub fn is_suspected(&self) -> bool {
        self.is_suspected
    }

    fn end_suspicion(&mut self) {
        if !self.is_suspected || self.is_most(self.count_failing()) {
            return;
        }
        self.is_suspected = false;
        // Failures up to now prove nothing about a single cluster.
        for path in self.paths.values_mut() {
            path.failing_since = None;
        }
    }

    fn count_failing(&self) -> u32 {
        self.count_renewed(|path| path.failing_since.is_some())
    }

    /// Counts clusters whose leases are renewed.
    fn count_renewed(&self, is_counted: impl Fn(&ProbedPath) -> bool) -> u32 {
        let paths = self.paths.values();
        let counted = paths.filter(|path| path.leases_renewed && is_counted(path));
        u32::try_from(counted.count()).unwrap_or(u32::MAX)
    }

    fn probed(&self) -> u32 {
        u32::try_from(self.paths.len()).unwrap_or(u32::MAX)
    }

    fn is_most(&self, count: u32) -> bool {
        count >= MIN_CLUSTERS && count > self.probed() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeResult::{Failure, Success, Transient};
    use proptest::prelude::*;

    const SUSPECTED: fn(u32, u32) -> EgressState =
        |failing, probed| EgressState::Suspected { failing, probed };

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn cluster(number: i64) -> Arc<str> {
        format!("cluster-{number:02}").into()
    }

    /// Returns a tracker in which this many external probes succeeded at 0.
    fn proven(clusters: i64) -> EgressTracker {
        let mut tracker = EgressTracker::default();
        for number in 0..clusters {
            tracker.record(&cluster(number), Success, at(0), true);
        }
        tracker
    }

    fn fail(tracker: &mut EgressTracker, number: i64, seconds: i64) -> EgressState {
        tracker.record(&cluster(number), Failure, at(seconds), true);
        tracker.state(&cluster(number), at(seconds))
    }

    #[test]
    fn most_failing_together_are_suspicious() {
        use EgressState::{Unclear, Works};
        for (probed, failing, spacing, expected) in [
            (1, 1, 1, Works),
            (2, 2, 1, Works),
            (3, 2, 1, Unclear),
            (3, 3, 1, SUSPECTED(3, 3)),
            (4, 2, 1, Unclear),
            (4, 3, 1, SUSPECTED(3, 4)),
            (10, 5, 1, Unclear),
            (10, 6, 1, SUSPECTED(6, 10)),
            (10, 6, 6, SUSPECTED(6, 10)),
            // The first is more than 30 s ago when the last fails.
            (10, 6, 7, Unclear),
        ] {
            let mut tracker = proven(probed);
            for number in 0..failing {
                fail(&mut tracker, number, 10 + number * spacing);
            }
            let last = 10 + (failing - 1) * spacing;
            let state = tracker.state(&cluster(failing - 1), at(last));
            assert_eq!(state, expected, "{failing} of {probed}, every {spacing} s");
        }
    }

    #[test]
    fn paths_that_never_worked_do_not_count() {
        let mut tracker = proven(3);
        for number in 3..20 {
            fail(&mut tracker, number, 1);
        }
        assert!(!tracker.is_suspected());
        for number in 0..3 {
            fail(&mut tracker, number, 2);
        }
        assert_eq!(tracker.state("cluster-00", at(2)), SUSPECTED(3, 3));
    }

    #[test]
    fn clusters_that_stopped_renewing_do_not_count() {
        let mut tracker = proven(4);
        for number in 0..4 {
            tracker.record(&cluster(number), Failure, at(10), number > 1);
        }
        assert!(!tracker.is_suspected(), "2 of 4 renew");
        tracker.record(&cluster(0), Failure, at(11), true);
        assert!(tracker.is_suspected());
        tracker.record(&cluster(0), Transient, at(12), false);
        assert!(!tracker.is_suspected(), "their leases are not renewed");
    }

    #[test]
    fn success_of_others_clears_the_egress() {
        let mut tracker = proven(10);
        assert_eq!(fail(&mut tracker, 0, 10), EgressState::Unclear);
        for number in 1..5 {
            tracker.record(&cluster(number), Success, at(12), true);
        }
        assert_eq!(tracker.state("cluster-00", at(12)), EgressState::Unclear);
        tracker.record(&cluster(5), Success, at(12), true);
        assert_eq!(tracker.state("cluster-00", at(12)), EgressState::Works);
    }

    #[test]
    fn unclear_egress_delays_for_a_limited_time() {
        let mut tracker = proven(10);
        fail(&mut tracker, 0, 10);
        assert_eq!(tracker.state("cluster-00", at(39)), EgressState::Unclear);
        assert_eq!(tracker.state("cluster-00", at(40)), EgressState::Works);
    }

    #[test]
    fn suspicion_lasts_until_half_succeed() {
        let mut tracker = proven(10);
        for number in 0..10 {
            fail(&mut tracker, number, 10);
        }
        for minute in 1..60 {
            assert_eq!(fail(&mut tracker, 0, minute * 60), SUSPECTED(10, 10));
        }
        for number in 0..4 {
            tracker.record(&cluster(number), Success, at(4_000), true);
        }
        assert_eq!(tracker.state("cluster-09", at(4_000)), SUSPECTED(6, 10));
        tracker.record(&cluster(4), Success, at(4_000), true);
        assert!(!tracker.is_suspected());
        assert_eq!(fail(&mut tracker, 9, 4_001), EgressState::Unclear);
    }

    #[test]
    fn removed_clusters_end_a_suspicion() {
        let mut tracker = proven(3);
        for number in 0..3 {
            fail(&mut tracker, number, 10);
        }
        assert!(tracker.is_suspected());
        tracker.remove("cluster-01");
        assert!(!tracker.is_suspected());
    }

    proptest! {
        /// Before a majority has failed, no cluster of a broken egress is judged by itself.
        #[test]
        fn broken_egress_is_never_blamed_on_a_cluster(
            // Every external probe is repeated within 10 s and fails.
            mut delays in prop::collection::vec(0_i64..10_000, 3..30),
        ) {
            delays.sort_unstable();
            let mut tracker = proven(i64::try_from(delays.len()).unwrap());
            for (number, millis) in (0..).zip(delays) {
                let now = Time::from_micros(10_000_000 + millis * 1_000);
                tracker.record(&cluster(number), Failure, now, true);
                for failed in 0..=number {
                    prop_assert_ne!(tracker.state(&cluster(failed), now), EgressState::Works);
                }
            }
            prop_assert!(tracker.is_suspected());
        }

        /// A single cluster is judged as soon as the others have been probed again.
        #[test]
        fn single_cluster_is_judged_after_a_round(clusters in 3_i64..30) {
            let mut tracker = proven(clusters);
            fail(&mut tracker, 0, 10);
            for number in 1..clusters {
                tracker.record(&cluster(number), Success, at(20), true);
            }
            prop_assert_eq!(tracker.state("cluster-00", at(20)), EgressState::Works);
        }
    }
}
