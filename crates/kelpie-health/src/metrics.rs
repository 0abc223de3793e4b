//! The metrics of the checks. Every series exists before the first probe.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::report::CheckReport;
use crate::{CheckGroup, CheckName};

/// Histogram buckets in seconds, from a local call to the default deadlines of 0.9 s and 4 s.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0];

/// Labels by name. Each family has its own number of them.
type Labels<const N: usize> = [(&'static str, String); N];

/// The metric families, from which each check creates its series.
pub(crate) struct HealthMetrics {
    state: Family<Labels<2>, Gauge>,
    results: Family<Labels<3>, Counter>,
    duration: Family<Labels<2>, Histogram, fn() -> Histogram>,
    runs: Family<Labels<1>, Counter>,
}

/// The series of one check in one group.
#[derive(Clone, Debug)]
pub(crate) struct CheckSeries {
    state: Gauge,
    success: Counter,
    error: Counter,
    duration: Histogram,
}

impl HealthMetrics {
    /// Registers the families under names that begin with `prefix`.
    ///
    /// The registry itself appends `_total` to the names of counters.
    pub(crate) fn new(prefix: &str, registry: &mut Registry) -> Self {
        let metrics = Self {
            state: Family::default(),
            results: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            runs: Family::default(),
        };
        registry.register(
            format!("{prefix}healthcheck"),
            "Last result of a health check: 1 ok, 0 failed or not probed yet",
            metrics.state.clone(),
        );
        registry.register(
            format!("{prefix}healthchecks"),
            "Results of a health check, one per probe, by status (success, error)",
            metrics.results.clone(),
        );
        registry.register(
            format!("{prefix}healthcheck_duration_seconds"),
            "Time a probe waited for a health check",
            metrics.duration.clone(),
        );
        registry.register(
            format!("{prefix}healthcheck_runs"),
            "Runs of a health check, or of a call shared by checks; concurrent probes share a run",
            metrics.runs.clone(),
        );
        metrics
    }

    pub(crate) fn series(&self, group: CheckGroup, name: &CheckName) -> CheckSeries {
        let labels = [("type", group.to_string()), ("name", name.to_string())];
        let results = |status: &str| {
            let [group, name] = labels.clone();
            let labels = [group, name, ("status", status.to_owned())];
            self.results.get_or_create_owned(&labels)
        };
        CheckSeries {
            state: self.state.get_or_create_owned(&labels),
            success: results("success"),
            error: results("error"),
            duration: self.duration.get_or_create_owned(&labels),
        }
    }

    pub(crate) fn runs(&self, name: &CheckName) -> Counter {
        let labels = [("name", name.to_string())];
        self.runs.get_or_create_owned(&labels)
    }
}

impl CheckSeries {
    /// Counts the result of one probe.
    pub(crate) fn record(&self, check: &CheckReport) {
        let ok = check.result.is_ok();
        self.state.set(i64::from(ok));
        if ok { &self.success } else { &self.error }.inc();
        self.duration.observe(Duration::as_secs_f64(&check.took));
    }
}
