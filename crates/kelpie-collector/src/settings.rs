//! What a collector is told.

use std::time::Duration;

use kelpie_net::Network;

use crate::Rules;
use crate::site::{Access, SiteError};
use crate::source::{RecordingRule, TooLong};

/// What a collector does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Prometheus to read from.
    pub from: Access,
    /// The hub to write to; `None`: what would be sent is only shown.
    pub to: Option<Access>,
    /// Which series: selectors, as `{job="api"}`.
    pub matchers: Vec<String>,
    /// Queries whose results are sent as well.
    pub recording_rules: Vec<RecordingRule>,
    /// What becomes of each sample.
    pub rules: Rules,
    /// Whose collector it is: decides when in an interval its ticks begin.
    pub cluster: Option<String>,
    /// How often everything is sent.
    pub interval: Duration,
    /// Bytes that the source may send in a tick.
    pub limit_bytes: u64,
    /// Reading and writing at the same time.
    pub workers: usize,
    /// How long it fails before that is told.
    pub degrade_after: Duration,
    /// What lies between us and both servers.
    pub network: Network,
}

/// Settings that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The source.
    #[error("the source: {0}")]
    From(SiteError),
    /// The hub.
    #[error("the hub: {0}")]
    To(SiteError),
    /// A selector.
    #[error(transparent)]
    Matcher(#[from] TooLong),
}
