//! The numbers of the prober. A cluster's series go with the cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kelpie_core::fence::Direction;
use kelpie_core::{Decision, Time, Verdict};
use kelpie_kube::Clock;
use kelpie_kube::tenant::Traffic;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::age::Age;

/// Every name begins with this.
pub(crate) const PREFIX: &str = "kelpie_prober";

/// Seconds: from a write on an idle seed to a lost race.
const FENCE_BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0, 60.0];
/// Seconds left to the deadline; what is late lies in the first.
const MARGIN_BUCKETS: [f64; 9] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0];
/// Seconds: from a kept connection to the limit of a round.
const ROUND_BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
/// A round that begins later than this after its time is counted as late.
const LATE: Duration = Duration::from_millis(250);

type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    cluster: Arc<str>,
    verdict: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabel {
    cluster: Arc<str>,
    direction: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

/// A label value from a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

const UP: Word = Word("up");
const DOWN: Word = Word("down");

fn word(direction: Direction) -> Word {
    match direction {
        Direction::Up => UP,
        Direction::Down => DOWN,
    }
}

const VERDICTS: [(Verdict, Word); 3] = [
    (Verdict::Fence, Word("fence")),
    (Verdict::Hold, Word("hold")),
    (Verdict::Release, Word("release")),
];

/// The families, and the series that no cluster owns. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) active_probes: Gauge,
    pub(crate) leader: Gauge,
    pub(crate) unreadable_clusters: Gauge,
    pub(crate) watch_failures: Counter,
    pub(crate) probe_restarts: Counter,
    requests: Family<CodeLabel, Counter>,
    /// Of the answers that healthy rounds get.
    answered: Counter,
    throttled: Counter,
    connections: Counter,
    bytes: Counter,
    scale_operations: Family<DirectionLabel, Counter>,
    trip_to_fence: Histogram,
    margin: Histogram,
    round_duration: Histogram,
    late_wakes: Counter,
    clock: Clock,
    clusters: Arc<Families>,
}

/// What every cluster has a series of.
#[derive(Debug)]
struct Families {
    internal_failures: Family<ClusterLabel, Counter>,
    external_failures: Family<ClusterLabel, Counter>,
    lease_failures: Family<ClusterLabel, Counter>,
    scale_attempts: Family<AttemptLabel, Counter>,
    expired: Family<ClusterLabel, FloatGauge>,
    candidates: Family<ClusterLabel, Gauge>,
    verdict: Family<VerdictLabel, Gauge>,
    fenced: Family<ClusterLabel, Age, Clock>,
    last_judged: Family<ClusterLabel, Age, Clock>,
    last_margin: Family<ClusterLabel, FloatGauge>,
}

impl Families {
    fn new(clock: Clock) -> Self {
        Self {
            internal_failures: Family::default(),
            external_failures: Family::default(),
            lease_failures: Family::default(),
            scale_attempts: Family::default(),
            expired: Family::default(),
            candidates: Family::default(),
            verdict: Family::default(),
            fenced: Family::new_with_constructor(clock),
            last_judged: Family::new_with_constructor(clock),
            last_margin: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers everything; ages are told by this clock.
    pub(crate) fn new(registry: &mut Registry, clock: Clock) -> Self {
        let requests = Family::<CodeLabel, Counter>::default();
        let code = "200".to_owned();
        let metrics = Self {
            answered: requests.get_or_create_owned(&CodeLabel { code }),
            active_probes: Gauge::default(),
            leader: Gauge::default(),
            unreadable_clusters: Gauge::default(),
            watch_failures: Counter::default(),
            probe_restarts: Counter::default(),
            requests,
            throttled: Counter::default(),
            connections: Counter::default(),
            bytes: Counter::default(),
            scale_operations: Family::default(),
            trip_to_fence: Histogram::new(FENCE_BUCKETS),
            margin: Histogram::new(MARGIN_BUCKETS),
            round_duration: Histogram::new(ROUND_BUCKETS),
            late_wakes: Counter::default(),
            clock,
            clusters: Arc::new(Families::new(clock)),
        };
        for direction in [DOWN, UP] {
            let label = DirectionLabel { direction };
            drop(metrics.scale_operations.get_or_create(&label));
        }
        let registry = registry.sub_registry_with_prefix(PREFIX);
        metrics.register_global(registry);
        metrics.register_of_clusters(registry);
        metrics
    }

    fn register_global(&self, registry: &mut Registry) {
        registry.register(
            "active_probes",
            "Clusters that are being probed",
            self.active_probes.clone(),
        );
        registry.register(
            "leader",
            "1 if this replica acts, 0 if it only observes",
            self.leader.clone(),
        );
        registry.register(
            "unreadable_clusters",
            "Cluster objects whose Shoot cannot be read: they keep the probe they had, or get none",
            self.unreadable_clusters.clone(),
        );
        registry.register(
            "watch_failures",
            "Watches on the seed that broke and were begun again",
            self.watch_failures.clone(),
        );
        registry.register(
            "probe_restarts",
            "Probes that ended by a defect and were started again",
            self.probe_restarts.clone(),
        );
        registry.register(
            "requests",
            "Requests to the API servers of the clusters, by status code; error: no answer",
            self.requests.clone(),
        );
        registry.register(
            "throttled",
            "Answers 429 from the API servers of the clusters",
            self.throttled.clone(),
        );
        registry.register(
            "connections",
            "Connections to the API servers of the clusters that were opened",
            self.connections.clone(),
        );
        registry.register(
            "received_bytes",
            "Bytes read from the API servers of the clusters, without headers",
            self.bytes.clone(),
        );
        registry.register(
            "scale_operations",
            "Scale calls acknowledged by the seed, by direction",
            self.scale_operations.clone(),
        );
        registry.register(
            "trip_to_fence_seconds",
            "From the trip of a cluster to each acknowledged scale call of its fence",
            self.trip_to_fence.clone(),
        );
        registry.register(
            "fence_margin_seconds",
            "Time left to the deadline when kube-controller-manager was scaled down; 0: too late",
            self.margin.clone(),
        );
        registry.register(
            "round_duration_seconds",
            "How long a probe round took",
            self.round_duration.clone(),
        );
        registry.register(
            "late_wakes",
            "Rounds that began more than 250 ms after their time",
            self.late_wakes.clone(),
        );
    }

    fn register_of_clusters(&self, registry: &mut Registry) {
        let families = &self.clusters;
        registry.register(
            "internal_probe_failures",
            "API-server probes of the cluster that failed",
            families.internal_failures.clone(),
        );
        registry.register(
            "external_probe_failures",
            "Probes of the cluster over the external path that failed",
            families.external_failures.clone(),
        );
        registry.register(
            "lease_probe_failures",
            "Rounds in which too many leases of the cluster were not renewed; lists that fail do not count",
            families.lease_failures.clone(),
        );
        registry.register(
            "scale_attempts",
            "Scale operations tried for the cluster, by direction, whatever came of them",
            families.scale_attempts.clone(),
        );
        registry.register(
            "expired_fraction",
            "Share of the cluster's candidate nodes whose leases are expired",
            families.expired.clone(),
        );
        registry.register(
            "candidates",
            "Nodes of the cluster that count",
            families.candidates.clone(),
        );
        registry.register(
            "verdict",
            "1 for the verdict that holds for the cluster, 0 for the others",
            families.verdict.clone(),
        );
        registry.register(
            "fenced_seconds",
            "Time since the cluster was found fenced; 0: it is not",
            families.fenced.clone(),
        );
        registry.register(
            "last_judged_age_seconds",
            "Time since leases of the cluster were last judged, or since its probe began",
            families.last_judged.clone(),
        );
        registry.register(
            "last_fence_margin_seconds",
            "Time that was left to the deadline when kube-controller-manager was last scaled down; \
             negative: it was too late",
            families.last_margin.clone(),
        );
    }

    /// A round has ended.
    pub(crate) fn round(&self, planned: Time, began: Time, ended: Time) {
        if began.since(planned) > LATE {
            self.late_wakes.inc();
        }
        self.round_duration
            .observe(ended.since(began).as_secs_f64());
    }

    /// A round's requests to a cluster's API server.
    pub(crate) fn traffic(&self, traffic: &Traffic) {
        for status in &traffic.statuses {
            match status {
                200 => {
                    self.answered.inc();
                    continue;
                }
                429 => self.throttled.inc(),
                _ => 0,
            };
            let code = status.to_string();
            self.requests.get_or_create(&CodeLabel { code }).inc();
        }
        if traffic.unanswered > 0 {
            let code = "error".to_owned();
            let unanswered = u64::from(traffic.unanswered);
            self.requests
                .get_or_create(&CodeLabel { code })
                .inc_by(unanswered);
        }
        self.connections.inc_by(traffic.connections.into());
        self.bytes.inc_by(traffic.bytes);
    }

    /// The series of a cluster, until they are dropped.
    pub(crate) fn of_cluster(&self, cluster: &Arc<str>) -> ClusterMetrics {
        let label = ClusterLabel {
            cluster: Arc::clone(cluster),
        };
        let families = &self.clusters;
        let attempts = [DOWN, UP].map(|direction| {
            let cluster = Arc::clone(cluster);
            families
                .scale_attempts
                .get_or_create_owned(&AttemptLabel { cluster, direction })
        });
        let verdict = VERDICTS.map(|(_, verdict)| {
            let cluster = Arc::clone(cluster);
            families
                .verdict
                .get_or_create_owned(&VerdictLabel { cluster, verdict })
        });
        let last_judged = families.last_judged.get_or_create_owned(&label);
        last_judged.set(Some(self.clock.now()));
        ClusterMetrics {
            internal_failures: families.internal_failures.get_or_create_owned(&label),
            external_failures: families.external_failures.get_or_create_owned(&label),
            lease_failures: families.lease_failures.get_or_create_owned(&label),
            expired: families.expired.get_or_create_owned(&label),
            candidates: families.candidates.get_or_create_owned(&label),
            fenced: families.fenced.get_or_create_owned(&label),
            last_judged,
            last_margin: families.last_margin.get_or_create_owned(&label),
            attempts,
            verdict,
            all: self.clone(),
            label,
        }
    }
}

/// The series of one cluster. They go when this is dropped.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    pub(crate) internal_failures: Counter,
    pub(crate) external_failures: Counter,
    pub(crate) lease_failures: Counter,
    expired: FloatGauge,
    candidates: Gauge,
    fenced: Age,
    last_judged: Age,
    last_margin: FloatGauge,
    attempts: [Counter; 2],
    verdict: [Gauge; 3],
    pub(crate) all: Metrics,
    label: ClusterLabel,
}

impl ClusterMetrics {
    /// A decision was made.
    pub(crate) fn decided(&self, decision: &Decision) {
        for ((verdict, _), gauge) in VERDICTS.iter().zip(&self.verdict) {
            gauge.set(i64::from(*verdict == decision.verdict));
        }
        let Some(leases) = decision.reasons.leases else {
            return;
        };
        self.candidates.set(leases.candidates.into());
        let share = f64::from(leases.expired) / f64::from(leases.candidates.max(1));
        self.expired.set(share);
        self.last_judged.set(Some(decision.at));
    }

    /// The cluster is fenced since then; `None`: it is not.
    pub(crate) fn fenced(&self, since: Option<Time>) {
        self.fenced.set(since);
    }

    /// A scale operation begins.
    pub(crate) fn scaling(&self, direction: Direction) {
        match direction {
            Direction::Down => self.attempts[0].inc(),
            Direction::Up => self.attempts[1].inc(),
        };
    }

    /// A scale call was acknowledged.
    pub(crate) fn scaled(&self, direction: Direction) {
        let direction = word(direction);
        let label = DirectionLabel { direction };
        self.all.scale_operations.get_or_create(&label).inc();
    }

    /// A target was fenced: how long after the trip, and how many seconds before the deadline.
    pub(crate) fn fenced_a_target(&self, at: Time, tripped: Time, margin: Option<f64>) {
        let took = at.since(tripped).as_secs_f64();
        self.all.trip_to_fence.observe(took);
        if let Some(margin) = margin {
            self.all.margin.observe(margin.max(0.0));
            self.last_margin.set(margin);
        }
    }
}

impl Drop for ClusterMetrics {
    fn drop(&mut self) {
        let families = &self.all.clusters;
        let label = &self.label;
        families.internal_failures.remove(label);
        families.external_failures.remove(label);
        families.lease_failures.remove(label);
        families.expired.remove(label);
        families.candidates.remove(label);
        families.fenced.remove(label);
        families.last_judged.remove(label);
        families.last_margin.remove(label);
        for direction in [DOWN, UP] {
            let cluster = Arc::clone(&label.cluster);
            families
                .scale_attempts
                .remove(&AttemptLabel { cluster, direction });
        }
        for (_, verdict) in VERDICTS {
            let cluster = Arc::clone(&label.cluster);
            families.verdict.remove(&VerdictLabel { cluster, verdict });
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_kube::WallClock;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn a_clusters_series_are_there_from_the_start_and_go_with_it() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry, Clock::anchored(&WallClock::default()));
        let before = text(&registry);
        let clusters = ["a", "b"].map(|name| metrics.of_cluster(&name.into()));
        let with_both = text(&registry);
        let of = |text: &str, cluster: &str| {
            let label = format!("cluster=\"{cluster}\"");
            text.lines().filter(|line| line.contains(&label)).count()
        };
        assert_eq!(of(&with_both, "a"), 13);
        assert_eq!(of(&with_both, "b"), 13);
        let [a, b] = clusters;
        drop(a);
        let with_b = text(&registry);
        assert_eq!((of(&with_b, "a"), of(&with_b, "b")), (0, 13));
        drop(b);
        assert_eq!(text(&registry), before);
    }

    #[test]
    fn a_fence_that_comes_too_late_has_a_negative_margin() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry, Clock::anchored(&WallClock::default()));
        let cluster = metrics.of_cluster(&"a".into());
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        cluster.fenced_a_target(at(12), at(10), Some(-3.0));
        assert!((cluster.last_margin.get() + 3.0).abs() < 1e-9);
        cluster.fenced_a_target(at(5), at(4), Some(4.0));
        assert!((cluster.last_margin.get() - 4.0).abs() < 1e-9);
        let text = text(&registry);
        assert!(
            text.contains("kelpie_prober_trip_to_fence_seconds_sum 3.0"),
            "{text}"
        );
        assert!(
            text.contains("kelpie_prober_fence_margin_seconds_bucket{le=\"0.0\"} 1"),
            "{text}"
        );
    }
}
