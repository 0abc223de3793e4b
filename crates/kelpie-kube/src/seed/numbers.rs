//! Numbers that the client of the seed counts, read when somebody asks for them.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use super::Events;

/// Collects the answers of the seed, and the Events that did not get there.
pub struct SeedNumbers<A, L> {
    answers: A,
    lost: L,
}

/// Events that did not get there, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostEvents {
    refused: u64,
    dropped: u64,
    failed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

impl<A, L> SeedNumbers<A, L>
where
    A: Fn() -> BTreeMap<u16, u64> + Send + Sync + 'static,
    L: Fn() -> LostEvents + Send + Sync + 'static,
{
    /// Under this prefix. `answers`: how many had which status, 0 for none at all.
    pub fn register(registry: &mut Registry, prefix: &str, answers: A, lost: L) {
        let numbers = Self { answers, lost };
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register_collector(Box::new(numbers));
    }
}

impl LostEvents {
    /// What did not get through so far.
    pub fn of(events: &Events) -> Self {
        Self {
            refused: events.refused(),
            dropped: events.dropped(),
            failed: events.failed(),
        }
    }
}

impl<A, L> fmt::Debug for SeedNumbers<A, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedNumbers").finish_non_exhaustive()
    }
}

impl<A, L> Collector for SeedNumbers<A, L>
where
    A: Fn() -> BTreeMap<u16, u64> + Send + Sync + 'static,
    L: Fn() -> LostEvents + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut requests = encoder.encode_descriptor(
            "seed_requests",
            "Requests to the seed's API server, by status code; error: no answer",
            None,
            MetricType::Counter,
        )?;
        for (status, count) in (self.answers)() {
            let code = match status {
                0 => "error".to_owned(),
                status => status.to_string(),
            };
            let label = CodeLabel { code };
            ConstCounter::new(count).encode(requests.encode_family(&label)?)?;
        }
        let mut lost = encoder.encode_descriptor(
            "events_lost",
            "Events that did not reach the seed: refused (no permission), dropped (too many), failed",
            None,
            MetricType::Counter,
        )?;
        let LostEvents {
            refused,
            dropped,
            failed,
        } = (self.lost)();
        for (cause, count) in [
            ("refused", refused),
            ("dropped", dropped),
            ("failed", failed),
        ] {
            let label = CauseLabel { cause };
            ConstCounter::new(count).encode(lost.encode_family(&label)?)?;
        }
        Ok(())
    }
}
