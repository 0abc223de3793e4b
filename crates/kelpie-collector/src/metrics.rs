//! The collector's own numbers.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::hub::Refusal;
use crate::underway::Kind;
use crate::{Cause, Tally};

/// Every name begins with this.
const PREFIX: &str = "kelpie_collector";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    /// What was asked for.
    kind: &'static str,
    /// The status; 0 without an answer.
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    federate_requests: Family<Request, Counter>,
    write_requests: Family<Code, Counter>,
    read: Counter,
    filtered: Family<CauseLabel, Counter>,
    unchanged: Counter,
    sent: Counter,
    refused: Family<CauseLabel, Counter>,
    undelivered: Counter,
    ticks: Family<ResultLabel, Counter>,
    missed: Counter,
    duration: Gauge<f64, std::sync::atomic::AtomicU64>,
    last_success: Gauge<f64, std::sync::atomic::AtomicU64>,
    failures: Gauge,
    series: Gauge,
}

/// Registers all families of the collector, with at least one series in each, so that their labels show.
pub fn exhibit(registry: &mut Registry) {
    let metrics = Metrics::new(registry);
    for kind in [Kind::Federate, Kind::Write] {
        metrics.begin(kind).answered(StatusCode::OK);
    }
}

impl Metrics {
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
        for cause in Cause::ALL {
            let _ = metrics.filtered.get_or_create(&CauseLabel {
                cause: cause.as_str(),
            });
        }
        for refusal in Refusal::ALL {
            let _ = metrics.refused.get_or_create(&CauseLabel {
                cause: refusal.name(),
            });
        }
        for result in ["success", "failure"] {
            let _ = metrics.ticks.get_or_create(&ResultLabel { result });
        }
        metrics.register(registry.sub_registry_with_prefix(PREFIX));
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "federate_requests",
            "Requests to the source, by kind (federate, query) and status; 0: no answer",
            self.federate_requests.clone(),
        );
        registry.register(
            "write_requests",
            "Requests to the hub, by status; 0: no answer",
            self.write_requests.clone(),
        );
        registry.register(
            "samples_read",
            "Samples read from the source",
            self.read.clone(),
        );
        registry.register(
            "samples_filtered",
            "Samples that are not sent, by cause",
            self.filtered.clone(),
        );
        registry.register(
            "samples_unchanged",
            "Samples that are not sent again, because the hub has the series at that time",
            self.unchanged.clone(),
        );
        registry.register(
            "samples_sent",
            "Samples that the hub has taken",
            self.sent.clone(),
        );
        registry.register(
            "samples_refused",
            "Samples that the hub has refused, by cause; those out_of_order, duplicate or in conflict \
             it has, or newer ones",
            self.refused.clone(),
        );
        registry.register(
            "samples_undelivered",
            "Samples that could not be delivered, or not before the tick was over",
            self.undelivered.clone(),
        );
        registry.register("ticks", "Ticks, by result", self.ticks.clone());
        registry.register(
            "ticks_missed",
            "Ticks that were skipped because the one before took too long",
            self.missed.clone(),
        );
        registry.register_with_unit(
            "last_tick_duration",
            "How long the last tick took",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register_with_unit(
            "last_success_timestamp",
            "When the last tick ended that succeeded; 0: none yet",
            Unit::Seconds,
            self.last_success.clone(),
        );
        registry.register(
            "failures_in_a_row",
            "Ticks that have failed since the last success",
            self.failures.clone(),
        );
        registry.register(
            "live_series",
            "Series whose last time at the hub is known",
            self.series.clone(),
        );
    }

    /// A request is over.
    pub(crate) fn requested(&self, kind: Kind, code: u16) {
        let kind = match kind {
            Kind::Federate => "federate",
            Kind::Query => "query",
            Kind::Write => {
                self.write_requests.get_or_create(&Code { code }).inc();
                return;
            }
        };
        let request = Request { kind, code };
        self.federate_requests.get_or_create(&request).inc();
    }

    pub(crate) fn read(&self, tally: &Tally) {
        self.read.inc_by(tally.read);
        self.unchanged.inc_by(tally.unchanged);
        for cause in Cause::ALL {
            let label = CauseLabel {
                cause: cause.as_str(),
            };
            let filtered = tally.filtered(cause);
            if filtered > 0 {
                self.filtered.get_or_create(&label).inc_by(filtered);
            }
        }
    }

    pub(crate) fn sent(&self, samples: u64) {
        self.sent.inc_by(samples);
    }

    pub(crate) fn refused(&self, refusal: Refusal, samples: u64) {
        let label = CauseLabel {
            cause: refusal.name(),
        };
        self.refused.get_or_create(&label).inc_by(samples);
    }

    pub(crate) fn undelivered(&self, samples: u64) {
        self.undelivered.inc_by(samples);
    }

    /// A tick has ended; `success`: when, in seconds since 1970, if it succeeded.
    pub(crate) fn ticked(
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
        self.ticks.get_or_create(&ResultLabel { result }).inc();
        self.duration.set(took.as_secs_f64());
        self.failures.set(failures.into());
        self.series.set(i64::try_from(series).unwrap_or(i64::MAX));
    }

    pub(crate) fn missed(&self, ticks: u64) {
        self.missed.inc_by(ticks);
    }
}
