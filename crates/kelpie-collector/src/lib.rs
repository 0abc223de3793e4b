//! Federates a Prometheus, transforms the samples and writes them to a hub by remote write.
//! Everything is streamed.
//!
//! ```
//! # use std::sync::Arc;
//! use kelpie_collector::{DedupTable, Pipeline, TransformRules};
//!
//! let rules = TransformRules::new().inject("cluster", "spoke-1").unwrap();
//! let dedup = Arc::new(DedupTable::default());
//! let mut pipeline = Pipeline::new(Arc::new(rules), Arc::clone(&dedup), 1_700_000_000_000);
//! let mut batches = Vec::new();
//! let mut out = |batch| batches.push(batch);
//! pipeline.feed(b"up{job=\"api\",cluster=\"spoofed\"} 1 16999999", &mut out).unwrap();
//! pipeline.feed(b"99000\n", &mut out).unwrap();
//! pipeline.finish(&mut out).unwrap();
//!
//! assert_eq!((pipeline.counts().read, pipeline.counts().sent), (1, 1));
//! let sent = batches[0].samples();
//! assert_eq!(sent[0].to_string(), r#"up{cluster="spoke-1",job="api"} 1 1699999999000"#);
//! dedup.acknowledge(&batches[0]); // after the hub's 2xx: not sent again
//! ```
//!
//! Reading order, along a sample:
//!
//! - A [`Pipeline`] takes the bytes of a response body, and `text` parses its lines.
//! - [`TransformRules`] change the labels and names of each sample.
//! - The [`DedupTable`] leaves out the samples that the hub already has.
//! - `wire` encodes the rest into a [`Batch`]. [`SampleCounts`] account for every sample.
//!
//! A [`Collector`] does that once per tick, as its [`CollectorSettings`] say. It reads a `source`
//! into a `queue` that is bounded by bytes, and `remote_write` sends the queued batches to the hub.
//! Both servers are a `peer`, whose certificates and tokens may change. A `tick` ends with a
//! [`TickOutcome`], and a [`ForwardReport`] goes to the addon's status.

mod collector;
mod dedup;
mod http_error;
mod label;
mod metrics;
mod name;
mod peer;
mod pipeline;
mod queue;
mod remote_write;
mod request_metrics;
mod retry_budget;
mod sample_counts;
mod schedule;
mod settings;
mod sink;
mod source;
mod state_page;
mod text;
mod tick;
mod tick_outcome;
mod tick_stats;
mod time_limit;
mod transform;
mod wire;

pub use collector::{Collector, ForwardReport};
pub use dedup::DedupTable;
pub use metrics::register_metrics;
pub use name::InvalidNames;
pub use peer::{BearerToken, PeerConfig, PeerConfigError};
pub use pipeline::Pipeline;
pub use sample_counts::{FilterCause, SampleCounts};
pub use settings::{CollectorSettings, CollectorSettingsError};
pub use source::{MatcherTooLong, RecordingRule};
pub use text::TextError;
pub use tick_outcome::{TickOutcome, TickSuccess};
pub use transform::{TransformRuleError, TransformRules};
pub use wire::{Batch, DecodedSample};
