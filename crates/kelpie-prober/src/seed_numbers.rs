//! Numbers that the client of the seed counts, read when somebody asks for them.

use std::fmt;

use kelpie_kube::seed::{Events, Seed};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Collects the counts of a client, and of the Events it sent.
pub(crate) struct SeedNumbers {
    pub(crate) seed: Seed,
    /// `None`: none are sent.
    pub(crate) events: Option<Events>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

impl fmt::Debug for SeedNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedNumbers").finish_non_exhaustive()
    }
}

impl Collector for SeedNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut requests = encoder.encode_descriptor(
            "seed_requests",
            "Requests to the seed's API server, by status code; error: no answer",
            None,
            MetricType::Counter,
        )?;
        for (status, count) in self.seed.answers() {
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
        let events = self.events.as_ref();
        for (cause, count) in [
            ("refused", events.map_or(0, Events::refused)),
            ("dropped", events.map_or(0, Events::dropped)),
            ("failed", events.map_or(0, Events::failed)),
        ] {
            let label = CauseLabel { cause };
            ConstCounter::new(count).encode(lost.encode_family(&label)?)?;
        }
        Ok(())
    }
}
