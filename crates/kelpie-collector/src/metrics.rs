//! The metrics of a collector.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::remote_write::RefusalReason;
use crate::request_metrics::RequestKind;
use crate::{FilterCause, SampleCounts};

/// The prefix of all metric names.
const PREFIX: &str = "kelpie_collector";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceRequestLabels {
    /// The kind of request: `federate` or `query`.
    kind: &'static str,
    code: ResponseCode,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    code: ResponseCode,
}

/// The HTTP status of a response. The label is `error` for a request without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ResponseCode(Option<StatusCode>);

impl EncodeLabelValue for ResponseCode {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self.0 {
            Some(status) => status.as_u16().encode(encoder),
            None => "error".encode(encoder),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SampleCauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TickResultLabel {
    result: &'static str,
}

/// The metrics of a collector. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CollectorMetrics {
    federate_requests: Family<SourceRequestLabels, Counter>,
    write_requests: Family<StatusLabel, Counter>,
    read: Counter,
    filtered: Family<SampleCauseLabel, Counter>,
    unchanged: Counter,
    sent: Counter,
    refused: Family<SampleCauseLabel, Counter>,
    undelivered: Counter,
    ticks: Family<TickResultLabel, Counter>,
    missed: Counter,
    duration: Gauge<f64, std::sync::atomic::AtomicU64>,
    last_success: Gauge<f64, std::sync::atomic::AtomicU64>,
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

impl CollectorMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            federate_requests: Family::default(),
            write_requests: Family::default(),
            read: Counter::default(),
            filtered: Family::default(),
            unchanged: Counter::default(),
            sent: Counter::default(),
            refused: Family::default(),
            undelivered: Counter::default(),
            ticks: Family::default(),
            missed: Counter::default(),
            duration: Gauge::default(),
            last_success: Gauge::default(),
            failures: Gauge::default(),
            series: Gauge::default(),
        };
        for cause in FilterCause::ALL {
            let _ = metrics.filtered.get_or_create(&SampleCauseLabel {
                cause: cause.as_str(),
            });
        }
        for reason in RefusalReason::ALL {
            let _ = metrics.refused.get_or_create(&SampleCauseLabel {
                cause: reason.name(),
            });
        }
        for result in ["success", "failure"] {
            let _ = metrics.ticks.get_or_create(&TickResultLabel { result });
        }
        metrics.register(registry.sub_registry_with_prefix(PREFIX));
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "federate_requests",
            "Requests to the source, by kind (federate, query) and HTTP status code; error: no \
             response",
            self.federate_requests.clone(),
        );
        registry.register(
            "write_requests",
            "Requests to the hub, by HTTP status code; error: no response",
            self.write_requests.clone(),
        );
        registry.register(
            "samples_read",
            "Samples read from the source",
            self.read.clone(),
        );
        registry.register(
            "samples_filtered",
            "Samples that were not sent, by cause",
            self.filtered.clone(),
        );
        registry.register(
            "samples_unchanged",
            "Samples not sent again because the hub already has the series at that time",
            self.unchanged.clone(),
        );
        registry.register(
            "samples_sent",
            "Samples accepted by the hub",
            self.sent.clone(),
        );
        registry.register(
            "samples_refused",
            "Samples refused by the hub, by cause; for out_of_order, duplicate and conflict the \
             hub has the sample or a newer one",
            self.refused.clone(),
        );
        registry.register(
            "samples_undelivered",
            "Samples that could not be delivered, or not before the tick ended",
            self.undelivered.clone(),
        );
        registry.register("ticks", "Ticks, by result", self.ticks.clone());
        registry.register(
            "ticks_missed",
            "Ticks skipped because the previous one took too long",
            self.missed.clone(),
        );
        registry.register_with_unit(
            "last_tick_duration",
            "Duration of the last tick",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register_with_unit(
            "last_success_timestamp",
            "End of the last successful tick; 0 means none yet",
            Unit::Seconds,
            self.last_success.clone(),
        );
        registry.register(
            "consecutive_failures",
            "Failed ticks since the last success",
            self.failures.clone(),
        );
        registry.register(
            "live_series",
            "Series whose last timestamp at the hub is known",
            self.series.clone(),
        );
    }

    /// Counts a request that has ended, with the status of its response if there was one.
    pub(crate) fn request_ended(&self, kind: RequestKind, status: Option<StatusCode>) {
        let code = ResponseCode(status);
        let kind = match kind {
            RequestKind::Federate => "federate",
            RequestKind::Query => "query",
            RequestKind::Write => {
                self.write_requests
                    .get_or_create(&StatusLabel { code })
                    .inc();
                return;
            }
        };
        let request = SourceRequestLabels { kind, code };
        self.federate_requests.get_or_create(&request).inc();
    }

    pub(crate) fn samples_read(&self, counts: &SampleCounts) {
        self.read.inc_by(counts.read);
        self.unchanged.inc_by(counts.unchanged);
        for cause in FilterCause::ALL {
            let label = SampleCauseLabel {
                cause: cause.as_str(),
            };
            let filtered = counts.filtered(cause);
            if filtered > 0 {
                self.filtered.get_or_create(&label).inc_by(filtered);
            }
        }
    }

    pub(crate) fn samples_sent(&self, samples: u64) {
        self.sent.inc_by(samples);
    }

    pub(crate) fn samples_refused(&self, reason: RefusalReason, samples: u64) {
        let label = SampleCauseLabel {
            cause: reason.name(),
        };
        self.refused.get_or_create(&label).inc_by(samples);
    }

    pub(crate) fn samples_undelivered(&self, samples: u64) {
        self.undelivered.inc_by(samples);
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
        self.ticks.get_or_create(&TickResultLabel { result }).inc();
        self.duration.set(took.as_secs_f64());
        self.failures.set(failures.into());
        self.series.set(i64::try_from(series).unwrap_or(i64::MAX));
    }

    pub(crate) fn ticks_missed(&self, ticks: u64) {
        self.missed.inc_by(ticks);
    }
}
