//! The numbers of the checks. Every series is there from the start.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::report::Finding;
use crate::{CheckName, Group};

/// Seconds, from a call on the same machine to the usual deadlines of 0.9 s and 4 s.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0];

/// A check in a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Place {
    r#type: Group,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    r#type: Group,
    name: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    name: String,
}

/// The families, from which each check takes its series once.
pub(crate) struct Metrics {
    state: Family<Place, Gauge>,
    answers: Family<Outcome, Counter>,
    duration: Family<Place, Histogram, fn() -> Histogram>,
    runs: Family<Call, Counter>,
}

/// The series of one check in one group.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    state: Gauge,
    success: Counter,
    error: Counter,
    duration: Histogram,
}

impl Metrics {
    /// Registers the families under names that begin with `prefix`. The registry itself appends
    /// `_total` to the names of counters.
    pub(crate) fn new(prefix: &str, registry: &mut Registry) -> Self {
        let metrics = Self {
            state: Family::default(),
            answers: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            runs: Family::default(),
        };
        registry.register(
            format!("{prefix}healthcheck"),
            "Last answer of a check: 1 ok, 0 failed or not asked yet",
            metrics.state.clone(),
        );
        registry.register(
            format!("{prefix}healthchecks"),
            "Answers of a check, by status success or error",
            metrics.answers.clone(),
        );
        registry.register(
            format!("{prefix}healthcheck_duration_seconds"),
            "How long a probe waited for a check",
            metrics.duration.clone(),
        );
        registry.register(
            format!("{prefix}healthcheck_runs"),
            "Runs of a check or of a call that checks share; probes at the same time share one",
            metrics.runs.clone(),
        );
        metrics
    }

    pub(crate) fn series(&self, group: Group, name: &CheckName) -> Series {
        let place = Place {
            r#type: group,
            name: name.to_string(),
        };
        let answers = |status| {
            self.answers.get_or_create_owned(&Outcome {
                r#type: group,
                name: name.to_string(),
                status,
            })
        };
        Series {
            state: self.state.get_or_create_owned(&place),
            success: answers("success"),
            error: answers("error"),
            duration: self.duration.get_or_create_owned(&place),
        }
    }

    pub(crate) fn runs(&self, name: &CheckName) -> Counter {
        let name = name.to_string();
        self.runs.get_or_create_owned(&Call { name })
    }
}

impl Series {
    /// Counts one answer.
    pub(crate) fn record(&self, found: &Finding) {
        let ok = found.verdict.is_ok();
        self.state.set(i64::from(ok));
        if ok { &self.success } else { &self.error }.inc();
        self.duration.observe(Duration::as_secs_f64(&found.took));
    }
}
