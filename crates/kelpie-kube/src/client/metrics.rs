//! Metrics of the client for the seed, read on every scrape.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::events::DroppedEvents;

/// A collector for the responses of the seed's API server, for Events that were not recorded, and
/// for the pause switch.
pub struct ClientMetrics {
    responses: Box<dyn Fn() -> BTreeMap<u16, u64> + Send + Sync>,
    dropped: Box<dyn Fn() -> DroppedEvents + Send + Sync>,
    paused: Box<dyn Fn() -> bool + Send + Sync>,
}

impl ClientMetrics {
    /// Registers the metrics with a prefix. `responses` returns the number of responses by status,
    /// where 0 stands for no response; `dropped` returns the Events that were not recorded;
    /// `paused` returns whether nothing new is done.
    pub fn register(
        registry: &mut Registry,
        prefix: &str,
        responses: impl Fn() -> BTreeMap<u16, u64> + Send + Sync + 'static,
        dropped: impl Fn() -> DroppedEvents + Send + Sync + 'static,
        paused: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register_collector(Box::new(Self {
            responses: Box::new(responses),
            dropped: Box::new(dropped),
            paused: Box::new(paused),
        }));
    }
}

impl fmt::Debug for ClientMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMetrics").finish_non_exhaustive()
    }
}

impl Collector for ClientMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut requests = encoder.encode_descriptor(
            "seed_requests",
            "Requests to the seed's API server, by status code; error: no response",
            None,
            MetricType::Counter,
        )?;
        for (status, count) in (self.responses)() {
            let code = match status {
                0 => "error".to_owned(),
                status => status.to_string(),
            };
            ConstCounter::new(count).encode(requests.encode_family(&[("code", code)])?)?;
        }
        let mut events = encoder.encode_descriptor(
            "events_lost",
            "Events that were not recorded: refused (no permission), dropped (queue full), failed",
            None,
            MetricType::Counter,
        )?;
        let dropped = (self.dropped)();
        for (cause, count) in [
            ("refused", dropped.refused),
            ("dropped", dropped.dropped),
            ("failed", dropped.failed),
        ] {
            ConstCounter::new(count).encode(events.encode_family(&[("cause", cause)])?)?;
        }
        let paused = encoder.encode_descriptor(
            "paused",
            "1 while an operator has paused this replica on its Lease: nothing new is fenced, no \
             pod is deleted",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(i64::from((self.paused)())).encode(paused)
    }
}
