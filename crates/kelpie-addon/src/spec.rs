//! What is wanted of the addon.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// `spec` of an `ObservabilityAddon`. The API server fills defaults in and keeps to the ranges; an
/// object that was written before it did is read with the same defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Whether metrics are collected at all.
    pub enable_metrics: bool,
    /// Seconds between two rounds of a collector.
    pub interval: u32,
    /// What a collector may read in one round.
    pub scrape_size_limit_bytes: u64,
    /// How many parts of a round run at the same time.
    pub workers: u32,
    /// The resources of a collector's container, as a Pod has them.
    pub resources: Option<Value>,
}

impl Spec {
    /// Seconds that an interval may have, from and to.
    pub(crate) const INTERVAL: (u32, u32) = (15, 3600);

    /// Workers that a collector may have, from and to: it takes no more than fit in 16 bits.
    pub(crate) const WORKERS: (u16, u16) = (1, 1_000);

    /// How many parts of a round run at the same time: within the range, also in an object that was
    /// written before there was one.
    pub fn workers(&self) -> u16 {
        let (least, most) = Self::WORKERS;
        let workers = u16::try_from(self.workers).unwrap_or(most);
        workers.clamp(least, most)
    }

    /// Between two rounds of a collector.
    pub fn interval(&self) -> Duration {
        let (least, most) = Self::INTERVAL;
        Duration::from_secs(self.interval.clamp(least, most).into())
    }
}

impl Default for Spec {
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
