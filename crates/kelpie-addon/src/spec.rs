//! The spec of the addon.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// `spec` of an `ObservabilityAddon`. The API server sets defaults and enforces the ranges. Objects
/// that are older than the schema are read with the same defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonSpec {
    /// Enables the collection of metrics.
    pub enable_metrics: bool,
    /// Seconds between two ticks of a collector.
    pub interval: u32,
    /// The number of bytes that a collector may read per tick.
    pub scrape_size_limit_bytes: u64,
    /// The number of parts of a tick that run concurrently.
    pub workers: u32,
    /// The resources of a collector's container, as in a Pod.
    pub resources: Option<Value>,
}

impl AddonSpec {
    /// The shortest and longest interval in seconds.
    pub(crate) const INTERVAL: (u32, u32) = (15, 3600);

    /// The smallest and largest number of workers. A collector accepts only 16 bits.
    pub(crate) const WORKERS: (u16, u16) = (1, 1_000);

    /// Returns the number of workers, limited to the range. An object that is older than the schema
    /// may be outside of it.
    pub fn workers(&self) -> u16 {
        let (least, most) = Self::WORKERS;
        let workers = u16::try_from(self.workers).unwrap_or(most);
        workers.clamp(least, most)
    }

    /// Returns the time between two ticks of a collector, limited to the range.
    pub fn interval(&self) -> Duration {
        let (least, most) = Self::INTERVAL;
        Duration::from_secs(self.interval.clamp(least, most).into())
    }
}

impl Default for AddonSpec {
    fn default() -> Self {
        Self {
            enable_metrics: true,
            interval: 300,
            scrape_size_limit_bytes: 1 << 30,
            workers: 1,
            resources: None,
        }
    }
}
