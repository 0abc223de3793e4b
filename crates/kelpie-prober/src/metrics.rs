//! The metrics of the prober. The series of a cluster are removed together with its probe.

mod age_gauge;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::Direction;
use kelpie_core::prober::guard::GuardState;
use kelpie_core::prober::{Decision, Rule, Verdict, WakeReason};
use kelpie_kube::client::ClientMetrics;
use kelpie_kube::events::DroppedEvents;
use kelpie_kube::tenant::RequestStats;
use kelpie_kube::{AnchoredClock, SystemClock};
use kelpie_runtime::MetricSet;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::registry::OptionalInput;
use age_gauge::AgeGauge;

/// The prefix of every metric's name.
pub(crate) const PREFIX: &str = "kelpie_prober";

/// In seconds: from a write on an idle seed to a fence that came too late.
const FENCE_BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0, 60.0];
/// In seconds left to the deadline. Late fences fall into the first bucket.
const MARGIN_BUCKETS: [f64; 9] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0];
/// A fence with less time to spare than this was thin.
const THIN_MARGIN: f64 = 0.5;
/// In seconds: from a short partition to one that lasts for days.
const FENCE_DURATION_BUCKETS: [f64; 9] = [
    10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0,
];
/// A fence compared with its deadline: `unknown` if no deadline was ahead.
const TIMINGS: [&str; 4] = ["in_time", "thin", "late", "unknown"];
/// In seconds: from a reused connection to the time limit of a round.
const ROUND_BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
/// A round that starts with more delay than this is counted as late.
const LATE_THRESHOLD: Duration = Duration::from_millis(250);

const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];
const VERDICTS: [(Verdict, &str); 3] = [
    (Verdict::Fence, "fence"),
    (Verdict::Hold, "hold"),
    (Verdict::Release, "release"),
];

type FloatGauge = Gauge<f64, AtomicU64>;
/// The name and the value of the only label.
type OneLabel = [(&'static str, String); 1];
type Ages = Family<ClusterLabel, AgeGauge, AnchoredClock>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    cluster: Arc<str>,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FenceLabel {
    cluster: Arc<str>,
    timing: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabel {
    cluster: Arc<str>,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabel {
    cluster: Arc<str>,
    direction: String,
}

fn code_label(code: &str) -> OneLabel {
    [("code", code.to_owned())]
}

impl ClusterLabel {
    fn with_verdict(&self, verdict: &'static str) -> VerdictLabel {
        let cluster = Arc::clone(&self.cluster);
        VerdictLabel { cluster, verdict }
    }

    fn with_timing(&self, timing: &'static str) -> FenceLabel {
        let cluster = Arc::clone(&self.cluster);
        FenceLabel { cluster, timing }
    }

    fn with_direction(&self, direction: Direction) -> AttemptLabel {
        AttemptLabel {
            cluster: Arc::clone(&self.cluster),
            direction: direction.to_string(),
        }
    }
}

/// All metrics of the prober.
#[derive(Debug)]
pub(crate) struct ProberMetrics {
    pub(crate) active_probes: Gauge,
    pub(crate) leader: Gauge,
    pub(crate) unreadable_clusters: Gauge,
    pub(crate) watch_failures: Counter,
    pub(crate) probe_restarts: Counter,
    pub(crate) own_egress_suspected: Gauge,
    pub(crate) shards: ShardMetrics,
    unavailable_inputs: Family<OneLabel, Gauge>,
    open_files_limit: Gauge,
    /// Counts lines of the record that were lost.
    pub(crate) record_lost: Counter,
    /// The number of records that wait on the leader Lease.
    pub(crate) records_on_lease: Gauge,
    requests: Family<OneLabel, Counter>,
    /// The counter of successful requests. A healthy round looks up nothing else.
    ok_responses: Counter,
    throttled: Counter,
    connections: Counter,
    bytes: Counter,
    scale_operations: Family<OneLabel, Counter>,
    trip_to_fence: Histogram,
    margin: Histogram,
    fence_duration: Histogram,
    round_duration: Histogram,
    rounds_late: Counter,
    clusters: ClusterFamilies,
    clock: AnchoredClock,
}

/// The metrics of shards. They are 0 if this prober watches all clusters.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    /// Clusters that no live shard selects.
    pub(crate) unwatched_clusters: Gauge,
    /// Clusters that several live shards select.
    pub(crate) contested_clusters: Gauge,
    pub(crate) live_shards: Gauge,
}

impl ShardMetrics {
    fn register(set: &mut MetricSet<'_>) -> Self {
        Self {
            unwatched_clusters: set.add(
                "unwatched_clusters",
                "Clusters that no live shard selects; 0 without a clusterSelector",
            ),
            contested_clusters: set.add(
                "contested_clusters",
                "Clusters that several live shards select; 0 without a clusterSelector",
            ),
            live_shards: set.add(
                "live_shards",
                "Shards whose Lease has not expired; 0 without a clusterSelector",
            ),
        }
    }
}

/// The families that have a series for each cluster.
#[derive(Debug)]
struct ClusterFamilies {
    internal_failures: Family<ClusterLabel, Counter>,
    external_failures: Family<ClusterLabel, Counter>,
    lease_failures: Family<ClusterLabel, Counter>,
    rationed_rounds: Family<ClusterLabel, Counter>,
    suppressed_log_lines: Family<ClusterLabel, Counter>,
    scale_attempts: Family<AttemptLabel, Counter>,
    fences: Family<FenceLabel, Counter>,
    pods_stopped_late: Family<ClusterLabel, Counter>,
    expired: Family<ClusterLabel, FloatGauge>,
    candidates: Family<ClusterLabel, Gauge>,
    unprotected: Family<ClusterLabel, Gauge>,
    external_undecided: Family<ClusterLabel, Gauge>,
    verdict: Family<VerdictLabel, Gauge>,
    guard_state: Family<GuardLabel, Gauge>,
    fenced: Ages,
    unfenced: Ages,
    pods_stopping: Ages,
    last_judged: Ages,
    last_margin: Family<ClusterLabel, FloatGauge>,
}

impl ProberMetrics {
    /// Registers all metrics. Ages are computed with `clock`.
    pub(crate) fn new(registry: &mut Registry, clock: AnchoredClock) -> Arc<Self> {
        let mut set = MetricSet::new(registry, PREFIX);
        let mut metrics = Self {
            active_probes: set.add("active_probes", "Clusters with a running probe"),
            leader: set.add(
                "leader",
                "1 if this replica acts, 0 if it only observes (standby or dry run)",
            ),
            unreadable_clusters: set.add(
                "unreadable_clusters",
                "Clusters whose object cannot be read. A running probe continues, no new one \
                 starts",
            ),
            watch_failures: set.add(
                "watch_failures",
                "Watches on the seed that failed and were restarted",
            ),
            probe_restarts: set.add(
                "probe_restarts",
                "Probes that panicked (a bug in Kelpie) and were restarted",
            ),
            own_egress_suspected: set.add(
                "own_egress_suspected",
                "1 while most external probes fail together and leases are renewed: the prober's \
                 own egress is suspected, and external probes decide nothing",
            ),
            shards: ShardMetrics::register(&mut set),
            unavailable_inputs: set.add(
                "optional_input_unavailable",
                "1 if an optional input cannot be listed, or its kind does not exist, and probes \
                 do without it",
            ),
            open_files_limit: set.add(
                "open_files_limit",
                "Limit on open files of the process, of which each cluster needs 12; 0 if unknown",
            ),
            record_lost: set.add(
                "recording_lines_lost",
                "Lines that the recording of --record lacks, because its queue was full or the \
                 disk failed",
            ),
            records_on_lease: set.add(
                "records_on_lease",
                "Records of fences that wait on the leader Lease, because an admission webhook \
                 does not let them be put on their targets",
            ),
            requests: set.add(
                "requests",
                "Requests to the API servers of the clusters, by HTTP status code; error: no \
                 response",
            ),
            ok_responses: Counter::default(),
            throttled: set.add(
                "throttled",
                "Requests that the API servers of the clusters rejected with HTTP 429 (throttled)",
            ),
            connections: set.add(
                "connections",
                "Connections opened to the API servers of the clusters",
            ),
            bytes: set.add(
                "received_bytes",
                "Bytes of response bodies received from the API servers of the clusters",
            ),
            scale_operations: set.add(
                "scale_operations",
                "Scale requests that the seed's API server acknowledged, by direction",
            ),
            trip_to_fence: set.register(
                "trip_to_fence_seconds",
                "Time from the trip of a cluster to each acknowledged scale-down of its fence",
                Histogram::new(FENCE_BUCKETS),
            ),
            margin: set.register(
                "fence_margin_seconds",
                "Time left to the deadline when kube-controller-manager was scaled down. Late \
                 fences count as 0",
                Histogram::new(MARGIN_BUCKETS),
            ),
            fence_duration: set.register(
                "fence_duration_seconds",
                "Time for which a cluster was fenced, observed by the replica that restored it",
                Histogram::new(FENCE_DURATION_BUCKETS),
            ),
            round_duration: set.register(
                "round_duration_seconds",
                "Duration of a round",
                Histogram::new(ROUND_BUCKETS),
            ),
            rounds_late: set.add("rounds_late", "Rounds that started more than 250 ms late"),
            clusters: ClusterFamilies::new(&mut set, clock),
            clock,
        };
        metrics.ok_responses = metrics.requests.get_or_create_owned(&code_label("200"));
        for direction in DIRECTIONS {
            metrics.count_operations(direction, 0);
        }
        for input in OptionalInput::ALL {
            metrics.set_unavailable(input, false);
        }
        Arc::new(metrics)
    }

    /// Records whether probes do without an optional input.
    pub(crate) fn set_unavailable(&self, input: OptionalInput, is_unavailable: bool) {
        let label = [("input", input.label().to_owned())];
        let gauge = self.unavailable_inputs.get_or_create(&label);
        gauge.set(is_unavailable.into());
    }

    /// Records the limit on open files.
    pub(crate) fn set_open_files_limit(&self, limit: u64) {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.open_files_limit.set(limit);
    }

    /// Counts a round that was planned for one time, and ran from `start` to `end`.
    pub(crate) fn round(&self, planned: Time, start: Time, end: Time) {
        if start.since(planned) > LATE_THRESHOLD {
            self.rounds_late.inc();
        }
        self.round_duration.observe(end.since(start).as_secs_f64());
    }

    /// Counts the requests of a round to a cluster's API server.
    pub(crate) fn requests(&self, stats: &RequestStats) {
        for status in &stats.statuses {
            if *status == 200 {
                self.ok_responses.inc();
                continue;
            }
            self.count_requests(&status.to_string(), 1);
            if *status == 429 {
                self.throttled.inc();
            }
        }
        if stats.unanswered > 0 {
            self.count_requests("error", stats.unanswered.into());
        }
        self.connections.inc_by(stats.connections.into());
        self.bytes.inc_by(stats.bytes);
    }

    fn count_requests(&self, code: &str, number: u64) {
        let label = code_label(code);
        self.requests.get_or_create(&label).inc_by(number);
    }

    fn count_operations(&self, direction: Direction, number: u64) {
        let label = [("direction", direction.to_string())];
        self.scale_operations.get_or_create(&label).inc_by(number);
    }

    /// Creates the series of a cluster. They exist until the returned value is dropped.
    pub(crate) fn of_cluster(self: &Arc<Self>, cluster: &Arc<str>) -> ClusterMetrics {
        let label = ClusterLabel {
            cluster: Arc::clone(cluster),
        };
        let families = &self.clusters;
        for direction in DIRECTIONS {
            let label = label.with_direction(direction);
            drop(families.scale_attempts.get_or_create(&label));
        }
        // Prometheus misses the first increment of a series that begins with it.
        for timing in TIMINGS {
            drop(families.fences.get_or_create(&label.with_timing(timing)));
        }
        let last_judged = families.last_judged.get_or_create_owned(&label);
        last_judged.set(Some(self.clock.now()));
        ClusterMetrics {
            internal_failures: families.internal_failures.get_or_create_owned(&label),
            external_failures: families.external_failures.get_or_create_owned(&label),
            lease_failures: families.lease_failures.get_or_create_owned(&label),
            rationed_rounds: families.rationed_rounds.get_or_create_owned(&label),
            pods_stopped_late: families.pods_stopped_late.get_or_create_owned(&label),
            suppressed_log_lines: families.suppressed_log_lines.get_or_create_owned(&label),
            expired: families.expired.get_or_create_owned(&label),
            candidates: families.candidates.get_or_create_owned(&label),
            unprotected: families.unprotected.get_or_create_owned(&label),
            external_undecided: families.external_undecided.get_or_create_owned(&label),
            fenced: families.fenced.get_or_create_owned(&label),
            unfenced: families.unfenced.get_or_create_owned(&label),
            pods_stopping: families.pods_stopping.get_or_create_owned(&label),
            last_judged,
            last_margin: families.last_margin.get_or_create_owned(&label),
            verdict: VERDICTS.map(|(_, verdict)| {
                let label = label.with_verdict(verdict);
                families.verdict.get_or_create_owned(&label)
            }),
            guard: None,
            prober: Arc::clone(self),
            label,
        }
    }
}

impl ClusterFamilies {
    fn new(set: &mut MetricSet<'_>, clock: AnchoredClock) -> Self {
        Self {
            internal_failures: set.add(
                "internal_probe_failures",
                "Failed API-server probes of the cluster",
            ),
            external_failures: set.add(
                "external_probe_failures",
                "Failed probes of the cluster over the external path",
            ),
            lease_failures: set.add(
                "lease_probe_failures",
                "Rounds in which too many node leases of the cluster were not renewed. Failed \
                 lists do not count",
            ),
            rationed_rounds: set.add(
                "rationed_rounds",
                "Rounds of the cluster that were put off to a second after the last one, because \
                 the cluster has used up its budget of rounds in quick succession",
            ),
            suppressed_log_lines: set.add(
                "suppressed_log_lines",
                "Lines about the cluster that were not logged, because the cluster has used up \
                 its budget of log lines",
            ),
            scale_attempts: set.add(
                "scale_attempts",
                "Scale operations attempted for the cluster, successful or not, by direction",
            ),
            fences: set.add(
                "fences",
                "Fences of the cluster that this replica made, by timing: in_time; thin (less \
                 than 0.5 s before the deadline); late; unknown (no deadline was known)",
            ),
            pods_stopped_late: set.add(
                "pods_stopped_late",
                "Fences of the cluster after which the pods of kube-controller-manager stopped \
                 later than the deadline",
            ),
            expired: set.add(
                "expired_fraction",
                "Fraction of the cluster's candidate nodes whose leases are expired",
            ),
            candidates: set.add(
                "candidates",
                "Candidate nodes of the cluster, whose leases are evaluated",
            ),
            unprotected: set.add(
                "unprotected",
                "1 if the cluster has nodes, but every one of them is excluded: it is never fenced",
            ),
            external_undecided: set.add(
                "external_undecided",
                "1 if the external path of the cluster is probed, but no probe has succeeded since \
                 the start: it decides nothing",
            ),
            verdict: set.add(
                "verdict",
                "1 for the current verdict on the cluster, 0 for the others",
            ),
            guard_state: set.add(
                "guard_state",
                "1 for the state of the cluster's guard; there is no series for the others",
            ),
            fenced: set.register(
                "fenced_seconds",
                "Time since the prober first saw the cluster fenced; 0 if it is not fenced",
                Ages::new_with_constructor(clock),
            ),
            unfenced: set.register(
                "unfenced_seconds",
                "Time for which a fence of the cluster has been wanted while \
                 kube-controller-manager is not scaled down; 0 if no fence is wanted, or it is \
                 made",
                Ages::new_with_constructor(clock),
            ),
            pods_stopping: set.register(
                "pods_stopping_seconds",
                "Time since this replica scaled kube-controller-manager down while its pods still \
                 run; 0 once they have stopped",
                Ages::new_with_constructor(clock),
            ),
            last_judged: set.register(
                "last_judged_age_seconds",
                "Time since the leases of the cluster were last evaluated, or since its probe \
                 started",
                Ages::new_with_constructor(clock),
            ),
            last_margin: set.add(
                "last_fence_margin_seconds",
                "Time left to the deadline when kube-controller-manager was last scaled down. \
                 Negative: too late. 0 if it never was",
            ),
        }
    }
}

/// The series of one cluster. They are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    pub(crate) internal_failures: Counter,
    pub(crate) external_failures: Counter,
    pub(crate) lease_failures: Counter,
    rationed_rounds: Counter,
    /// Counts fenced targets whose pods stopped after the deadline.
    pub(crate) pods_stopped_late: Counter,
    pub(crate) suppressed_log_lines: Counter,
    expired: FloatGauge,
    candidates: Gauge,
    unprotected: Gauge,
    pub(crate) external_undecided: Gauge,
    /// The age of the cluster's fence.
    pub(crate) fenced: AgeGauge,
    /// The time for which a fence has been wanted and not made.
    pub(crate) unfenced: AgeGauge,
    /// The time since a fence whose pods still run.
    pub(crate) pods_stopping: AgeGauge,
    last_judged: AgeGauge,
    last_margin: FloatGauge,
    verdict: [Gauge; 3],
    /// The label of the guard's state, once it is known.
    guard: Option<GuardLabel>,
    pub(crate) prober: Arc<ProberMetrics>,
    label: ClusterLabel,
}

impl ClusterMetrics {
    /// Updates the gauges that show a decision and the leases it is based on.
    pub(crate) fn decided(&self, decision: &Decision) {
        if decision.next_wake.reason == WakeReason::Rationed {
            self.rationed_rounds.inc();
        }
        for ((verdict, _), gauge) in VERDICTS.iter().zip(&self.verdict) {
            gauge.set(i64::from(*verdict == decision.verdict));
        }
        let Some(leases) = decision.reasons.leases else {
            return;
        };
        self.candidates.set(leases.candidates.into());
        let is_unprotected = matches!(decision.reasons.rule, Rule::NoCandidates { .. });
        self.unprotected.set(is_unprotected.into());
        let fraction = f64::from(leases.expired) / f64::from(leases.candidates.max(1));
        self.expired.set(fraction);
        self.last_judged.set(Some(decision.at));
    }

    /// Returns the instant to which the ages refer.
    pub(crate) fn now(&self) -> Time {
        self.prober.clock.now()
    }

    /// Shows the state of the guard.
    pub(crate) fn guard(&mut self, state: &GuardState) {
        let family = &self.prober.clusters.guard_state;
        let label = GuardLabel {
            cluster: Arc::clone(&self.label.cluster),
            state: state.as_str(),
        };
        if let Some(former) = self.guard.take_if(|former| *former != label) {
            family.remove(&former);
        }
        family.get_or_create(&label).set(1);
        self.guard = Some(label);
    }

    /// Counts the start of a scale operation.
    pub(crate) fn scaling(&self, direction: Direction) {
        let label = self.label.with_direction(direction);
        self.prober
            .clusters
            .scale_attempts
            .get_or_create(&label)
            .inc();
    }

    /// Counts an acknowledged scale request.
    pub(crate) fn scaled(&self, direction: Direction) {
        self.prober.count_operations(direction, 1);
    }

    /// Counts a fence. `margin` is the number of seconds that were left to the deadline.
    pub(crate) fn fence_made(&self, margin: Option<f64>) {
        let timing = match margin {
            None => "unknown",
            Some(margin) if margin < 0.0 => "late",
            Some(margin) if margin < THIN_MARGIN => "thin",
            Some(_) => "in_time",
        };
        let label = self.label.with_timing(timing);
        self.prober.clusters.fences.get_or_create(&label).inc();
    }

    /// Records the end of a fence of this length.
    pub(crate) fn fence_lifted(&self, duration: Duration) {
        self.prober.fence_duration.observe(duration.as_secs_f64());
    }

    /// Records that a target was fenced at `at`. `margin` is the number of seconds left to the
    /// deadline; `None` for a target without a deadline.
    pub(crate) fn target_fenced(&self, at: Time, tripped: Time, margin: Option<f64>) {
        let after_trip = at.since(tripped).as_secs_f64();
        self.prober.trip_to_fence.observe(after_trip);
        if let Some(margin) = margin {
            self.prober.margin.observe(margin.max(0.0));
            self.last_margin.set(margin);
        }
    }
}

impl Drop for ClusterMetrics {
    fn drop(&mut self) {
        let (families, label) = (&self.prober.clusters, &self.label);
        families.internal_failures.remove(label);
        families.external_failures.remove(label);
        families.lease_failures.remove(label);
        families.rationed_rounds.remove(label);
        families.pods_stopped_late.remove(label);
        for timing in TIMINGS {
            families.fences.remove(&label.with_timing(timing));
        }
        families.suppressed_log_lines.remove(label);
        families.expired.remove(label);
        families.candidates.remove(label);
        families.unprotected.remove(label);
        families.external_undecided.remove(label);
        families.fenced.remove(label);
        families.unfenced.remove(label);
        families.pods_stopping.remove(label);
        families.last_judged.remove(label);
        families.last_margin.remove(label);
        for direction in DIRECTIONS {
            families
                .scale_attempts
                .remove(&label.with_direction(direction));
        }
        if let Some(guard) = &self.guard {
            families.guard_state.remove(guard);
        }
        for (_, verdict) in VERDICTS {
            families.verdict.remove(&label.with_verdict(verdict));
        }
    }
}

/// Registers all metrics of the prober, each with at least one series so that its labels are known.
/// The series of the example cluster are removed when the returned value is dropped.
#[must_use = "dropping it removes the example series"]
pub fn register_metrics(registry: &mut Registry) -> impl Drop + use<> {
    let metrics = ProberMetrics::new(registry, AnchoredClock::anchored(&SystemClock::default()));
    ClientMetrics::register(
        registry,
        PREFIX,
        || [(200, 1)].into(),
        DroppedEvents::default,
        || false,
    );
    let mut example = metrics.of_cluster(&"shoot--dev--one".into());
    example.guard(&GuardState::Unknown);
    example
}

#[cfg(test)]
mod tests {
    use kelpie_kube::SystemClock;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn series_live_as_long_as_their_cluster() {
        let mut registry = Registry::default();
        let metrics = ProberMetrics::new(
            &mut registry,
            AnchoredClock::anchored(&SystemClock::default()),
        );
        let before = text(&registry);
        let clusters = ["a", "b"].map(|name| metrics.of_cluster(&name.into()));
        let with_both = text(&registry);
        let of = |text: &str, cluster: &str| {
            let label = format!("cluster=\"{cluster}\"");
            text.lines().filter(|line| line.contains(&label)).count()
        };
        assert_eq!(of(&with_both, "a"), 24);
        assert_eq!(of(&with_both, "b"), 24);
        let [a, b] = clusters;
        drop(a);
        let with_b = text(&registry);
        assert_eq!((of(&with_b, "a"), of(&with_b, "b")), (0, 24));
        drop(b);
        assert_eq!(text(&registry), before);
    }

    #[test]
    fn fences_are_counted_by_timing() {
        let mut registry = Registry::default();
        let metrics = ProberMetrics::new(
            &mut registry,
            AnchoredClock::anchored(&SystemClock::default()),
        );
        let cluster = metrics.of_cluster(&"a".into());
        for margin in [None, Some(-0.1), Some(0.0), Some(0.4), Some(0.5), Some(4.0)] {
            cluster.fence_made(margin);
        }
        let text = text(&registry);
        for (timing, count) in [("unknown", 1), ("late", 1), ("thin", 2), ("in_time", 2)] {
            let series = format!(
                "kelpie_prober_fences_total{{cluster=\"a\",timing=\"{timing}\"}} {count}\n"
            );
            assert!(text.contains(&series), "{series} is not in {text}");
        }
    }

    #[test]
    fn late_fence_has_negative_margin() {
        let mut registry = Registry::default();
        let metrics = ProberMetrics::new(
            &mut registry,
            AnchoredClock::anchored(&SystemClock::default()),
        );
        let cluster = metrics.of_cluster(&"a".into());
        let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
        cluster.target_fenced(at(12), at(10), Some(-3.0));
        assert!((cluster.last_margin.get() + 3.0).abs() < 1e-9);
        cluster.target_fenced(at(5), at(4), Some(4.0));
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

    #[test]
    fn every_family_has_an_example() {
        let mut registry = Registry::default();
        let examples = register_metrics(&mut registry);
        let series = text(&registry);
        let lines: Vec<&str> = series.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            if line.starts_with("# TYPE ") {
                assert!(!next.starts_with('#'), "{line} has no series");
            }
        }
        drop(examples);
        let left = text(&registry);
        assert!(!left.contains("shoot--dev--one"), "{left}");
    }
}
