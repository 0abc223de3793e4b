//! The metrics of a collector.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::remote_write::RefusalReason;
use crate::request_metrics::RequestKind;
use crate::{FilterCause, SampleCounts};

/// The prefix of all metric names.
const PREFIX: &str = "kelpie_collector";

/// Labels by name. Each family has its own number of them.
type Labels<V, const N: usize> = [(&'static str, V); N];

/// The metrics of a collector. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CollectorMetrics {
    federate_requests: Family<Labels<String, 2>, Counter>,
    write_requests: Family<Labels<String, 1>, Counter>,
    read: Counter,
    filtered: Family<Labels<&'static str, 1>, Counter>,
    unchanged: Counter,
    pub(crate) sent: Counter,
    refused: Family<Labels<&'static str, 1>, Counter>,
    pub(crate) undelivered: Counter,
    ticks: Family<Labels<&'static str, 1>, Counter>,
    pub(crate) missed: Counter,
    duration: Gauge<f64, AtomicU64>,
    last_success: Gauge<f64, AtomicU64>,
    failures: Gauge,
    series: Gauge,
}

/// Registers all metrics of the collector. Each family has at least one series, so that its labels
/// are visible.
pub fn register_metrics(registry: &mut Registry) {
    let metrics = CollectorMetrics::new(registry);
    for kind in [RequestKind::Federate, RequestKind::Write] {
        metrics.start_request(kind).responded(StatusCode::OK);
    }
}

/// Creates a metric and registers it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn register_seconds(registry: &mut Registry, name: &str, help: &str) -> Gauge<f64, AtomicU64> {
    let metric = Gauge::default();
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

impl CollectorMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let metrics = Self {
            federate_requests: register(
                registry,
                "federate_requests",
                "Requests to the source, by kind (federate, query) and HTTP status code; error: \
                 no response",
            ),
            write_requests: register(
                registry,
                "write_requests",
                "Requests to the hub, by HTTP status code; error: no response",
            ),
            read: register(registry, "samples_read", "Samples read from the source"),
            filtered: register(
                registry,
                "samples_filtered",
                "Samples that were not sent, by cause",
            ),
            unchanged: register(
                registry,
                "samples_unchanged",
                "Samples not sent again because the hub already has the series at that time",
            ),
            sent: register(registry, "samples_sent", "Samples accepted by the hub"),
            refused: register(
                registry,
                "samples_refused",
                "Samples refused by the hub, by cause; for out_of_order, duplicate and conflict \
                 the hub has the sample or a newer one",
            ),
            undelivered: register(
                registry,
                "samples_undelivered",
                "Samples that could not be delivered, or not before the tick ended",
            ),
            ticks: register(registry, "ticks", "Ticks, by result"),
            missed: register(
                registry,
                "ticks_missed",
                "Ticks skipped because the previous one took too long",
            ),
            duration: register_seconds(registry, "last_tick_duration", "Duration of the last tick"),
            last_success: register_seconds(
                registry,
                "last_success_timestamp",
                "End of the last successful tick; 0 means none yet",
            ),
            failures: register(
                registry,
                "consecutive_failures",
                "Failed ticks since the last success",
            ),
            series: register(
                registry,
                "live_series",
                "Series whose last timestamp at the hub is known",
            ),
        };
        for cause in FilterCause::ALL {
            let _ = metrics.filtered.get_or_create(&[("cause", cause.as_str())]);
        }
        for reason in RefusalReason::ALL {
            let _ = metrics.refused.get_or_create(&[("cause", reason.name())]);
        }
        for result in ["success", "failure"] {
            let _ = metrics.ticks.get_or_create(&[("result", result)]);
        }
        metrics
    }

    /// Counts a request that has ended, with the status of its response if there was one.
    pub(crate) fn request_ended(&self, kind: RequestKind, status: Option<StatusCode>) {
        let code = (
            "code",
            status
                .as_ref()
                .map_or("error", StatusCode::as_str)
                .to_owned(),
        );
        let kind = match kind {
            RequestKind::Federate => "federate",
            RequestKind::Query => "query",
            RequestKind::Write => {
                self.write_requests.get_or_create(&[code]).inc();
                return;
            }
        };
        let labels = [("kind", kind.to_owned()), code];
        self.federate_requests.get_or_create(&labels).inc();
    }

    pub(crate) fn samples_read(&self, counts: &SampleCounts) {
        self.read.inc_by(counts.read);
        self.unchanged.inc_by(counts.unchanged);
        for cause in FilterCause::ALL {
            let filtered = counts.filtered(cause);
            if filtered > 0 {
                let label = [("cause", cause.as_str())];
                self.filtered.get_or_create(&label).inc_by(filtered);
            }
        }
    }

    pub(crate) fn samples_refused(&self, reason: RefusalReason, samples: u64) {
        let label = [("cause", reason.name())];
        self.refused.get_or_create(&label).inc_by(samples);
    }

    /// Counts a tick that has ended. `success` is its end in Unix seconds if it succeeded.
    pub(crate) fn tick_ended(
        &self,
        success: Option<f64>,
        took: Duration,
        failures: u32,
        series: usize,
    ) {
        let result = match success {
            Some(at) => {
                self.last_success.set(at);
                "success"
            }
            None => "failure",
        };
        self.ticks.get_or_create(&[("result", result)]).inc();
        self.duration.set(took.as_secs_f64());
        self.failures.set(failures.into());
        self.series.set(i64::try_from(series).unwrap_or(i64::MAX));
    }
}
