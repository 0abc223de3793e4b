//! From a Prometheus to a hub: federate, transform, remote write; streaming.
//!
//! ```
//! # use std::sync::Arc;
//! use kelpie_collector::{Pipeline, Rules, Seen};
//!
//! let rules = Rules::new().inject("cluster", "spoke-1").unwrap();
//! let seen = Arc::new(Seen::default());
//! let mut pipeline = Pipeline::new(Arc::new(rules), Arc::clone(&seen), 1_700_000_000_000);
//! let mut batches = Vec::new();
//! let mut out = |batch| batches.push(batch);
//! pipeline.feed(b"up{job=\"api\",cluster=\"spoofed\"} 1 16999999", &mut out).unwrap();
//! pipeline.feed(b"99000\n", &mut out).unwrap();
//! pipeline.finish(&mut out).unwrap();
//!
//! assert_eq!((pipeline.tally().read, pipeline.tally().sent), (1, 1));
//! let sent = batches[0].samples();
//! assert_eq!(sent[0].to_string(), r#"up{cluster="spoke-1",job="api"} 1 1699999999000"#);
//! seen.acknowledge(&batches[0]); // after the hub's 2xx: not sent again
//! ```
//!
//! Reading order: a [`Pipeline`] takes a body as it comes, `text` reads its lines, [`Rules`] say
//! what becomes of each sample, [`Seen`] which ones the hub has already, and `wire` packs the rest
//! into each [`Batch`]. A [`Tally`] says what became of all of them.
//!
//! A [`Collector`] does that tick by tick, as its [`Settings`] say: a `source` is read into a `queue`
//! bounded by bytes, from which the `hub` is written; both are a `site`, whose certificates and
//! tokens may change. What became of a `tick` is an [`Outcome`], and what there is to say about it a
//! [`Word`].

mod board;
mod collector;
mod hub;
mod label;
mod ledger;
mod metrics;
mod name;
mod outcome;
mod outlet;
mod pipeline;
mod queue;
mod said;
mod schedule;
mod seen;
mod settings;
mod site;
mod source;
mod tally;
mod text;
mod tick;
mod transform;
mod underway;
mod wire;

pub use collector::{Collector, Word};
pub use metrics::exhibit;
pub use outcome::{Outcome, Success};
pub use pipeline::Pipeline;
pub use seen::Seen;
pub use settings::{Settings, SettingsError};
pub use site::{Access, SiteError};
pub use source::{RecordingRule, TooLong};
pub use tally::{Cause, Tally};
pub use text::TextError;
pub use transform::{RuleError, Rules};
pub use wire::{Batch, Sample};
