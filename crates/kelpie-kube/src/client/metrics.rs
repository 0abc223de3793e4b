//! Metrics of the client for the seed, read on every scrape.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use crate::events::DroppedEvents;

/// A collector for the responses of the seed's API server, and for Events that were not recorded.
pub struct ClientMetrics<R, D> {
    responses: R,
    dropped: D,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusCodeLabel {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropCauseLabel {
    cause: &'static str,
}

impl<R, D> ClientMetrics<R, D>
where
    R: Fn() -> BTreeMap<u16, u64> + Send + Sync + 'static,
    D: Fn() -> DroppedEvents + Send + Sync + 'static,
{
    /// Registers the metrics with a prefix. `responses` returns the number of responses by status,
    /// where 0 stands for no response; `dropped` returns the Events that were not recorded.
    pub fn register(registry: &mut Registry, prefix: &str, responses: R, dropped: D) {
        let metrics = Self { responses, dropped };
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register_collector(Box::new(metrics));
    }
}

impl<R, D> fmt::Debug for ClientMetrics<R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMetrics").finish_non_exhaustive()
    }
}

impl<R, D> Collector for ClientMetrics<R, D>
where
    R: Fn() -> BTreeMap<u16, u64> + Send + Sync + 'static,
    D: Fn() -> DroppedEvents + Send + Sync + 'static,
{
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
            let label = StatusCodeLabel { code };
            ConstCounter::new(count).encode(requests.encode_family(&label)?)?;
        }
        let mut events = encoder.encode_descriptor(
            "events_lost",
            "Events that were not recorded: refused (no permission), dropped (queue full), failed",
            None,
            MetricType::Counter,
        )?;
        let DroppedEvents {
            refused,
            dropped,
            failed,
        } = (self.dropped)();
        for (cause, count) in [
            ("refused", refused),
            ("dropped", dropped),
            ("failed", failed),
        ] {
            let label = DropCauseLabel { cause };
            ConstCounter::new(count).encode(events.encode_family(&label)?)?;
        }
        Ok(())
    }
}
