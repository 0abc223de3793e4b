//! The settings of a collector.

use std::time::Duration;

use kelpie_net::Network;

use crate::TransformRules;
use crate::peer::{PeerConfig, PeerConfigError};
use crate::source::{MatcherTooLong, RecordingRule};

/// The settings of a collector.
#[derive(Clone, Debug)]
pub struct CollectorSettings {
    /// The Prometheus to read from.
    pub from: PeerConfig,
    /// The server that evaluates `recording_rules`, if it is not the Prometheus itself.
    pub from_queries: Option<PeerConfig>,
    /// The hub to write to. `None` is a dry run, which only shows the samples.
    pub to: Option<PeerConfig>,
    /// The selectors of the series to send, such as `{job="api"}`.
    pub matchers: Vec<String>,
    /// Queries whose results are sent as well.
    pub recording_rules: Vec<RecordingRule>,
    /// The changes to make to each sample.
    pub rules: TransformRules,
    /// The name of the cluster. It decides on the offset of the ticks within an interval.
    pub cluster: Option<String>,
    /// The time from one tick to the next, and the longest duration of a tick.
    pub interval: Duration,
    /// Limits the bytes that the source sends in a tick.
    pub limit_bytes: u64,
    /// The number of concurrent requests to the source, and to the hub.
    pub workers: usize,
    /// The time for which forwarding must fail before the failure is reported.
    pub degrade_after: Duration,
    /// The network to reach both servers through.
    pub network: Network,
}

/// The reason that [`CollectorSettings`] are invalid.
#[derive(Debug, thiserror::Error)]
pub enum CollectorSettingsError {
    /// The configuration of the source is invalid.
    #[error("source: {0}")]
    From(PeerConfigError),
    /// The configuration of the hub is invalid.
    #[error("hub: {0}")]
    To(PeerConfigError),
    /// The name of a recording rule is not a valid metric name.
    #[error(
        "recording rule {0:?} has no valid metric name: rename it, or escape invalid names \
         (--invalid-names)"
    )]
    RuleName(String),
    /// A selector is too long.
    #[error(transparent)]
    Matcher(#[from] MatcherTooLong),
}
