//! The spec of the addon.

use std::time::Duration;

use kelpie_core::truncated;
use serde_json::Value;

/// The limit of a quoted value in characters.
const MAX_QUOTED: usize = 64;

/// `spec` of an `ObservabilityAddon`. The API server sets defaults and enforces the ranges. Objects
/// that are older than the schema are read with the same defaults.
#[derive(Clone, Debug, PartialEq)]
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
    /// Reads each field on its own. A field that cannot be read gets its default, and a message
    /// says so.
    pub(crate) fn read(spec: &Value) -> (Self, Vec<String>) {
        let default = Self::default();
        let mut problems = Vec::new();
        let mut problem = |field: &str, allowed: &str, used: String| {
            let value = spec[field].to_string();
            let value = truncated(&value, MAX_QUOTED);
            problems.push(format!(
                "spec.{field} is {value}, not {allowed}; using {used}"
            ));
        };
        let is_missing = |field: &str| spec[field].is_null();
        let mut number = |field: &str, most: u64, default: u64| {
            let number = spec[field].as_u64().filter(|number| *number <= most);
            number.unwrap_or_else(|| {
                if !is_missing(field) {
                    let allowed = format!("a whole number from 0 to {most}");
                    problem(field, &allowed, default.to_string());
                }
                default
            })
        };
        let u32_max = u64::from(u32::MAX);
        let interval = number("interval", u32_max, default.interval.into());
        let workers = number("workers", u32_max, default.workers.into());
        let limit = number(
            "scrapeSizeLimitBytes",
            u64::MAX,
            default.scrape_size_limit_bytes,
        );
        let enable_metrics = spec["enableMetrics"].as_bool().unwrap_or_else(|| {
            if !is_missing("enableMetrics") {
                problem("enableMetrics", "true or false", "true".to_owned());
            }
            default.enable_metrics
        });
        let resources = Some(&spec["resources"]).filter(|resources| resources.is_object());
        if resources.is_none() && !is_missing("resources") {
            problem("resources", "an object", "none".to_owned());
        }
        let spec = Self {
            enable_metrics,
            interval: u32::try_from(interval).unwrap_or(default.interval),
            scrape_size_limit_bytes: limit,
            workers: u32::try_from(workers).unwrap_or(default.workers),
            resources: resources.cloned(),
        };
        (spec, problems)
    }

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_one_by_one() {
        let (spec, problems) = AddonSpec::read(&json!({
            "enableMetrics": false,
            "interval": 60,
            "scrapeSizeLimitBytes": -1,
            "workers": 1u64 << 40,
            "resources": [],
        }));
        let expected = AddonSpec {
            enable_metrics: false,
            interval: 60,
            ..AddonSpec::default()
        };
        assert_eq!(spec, expected);
        assert_eq!(problems.len(), 3, "{problems:?}");
        let message = format!(
            "spec.scrapeSizeLimitBytes is -1, not a whole number from 0 to {}; using 1073741824",
            u64::MAX
        );
        assert!(problems.contains(&message), "{problems:?}");
        let (spec, problems) = AddonSpec::read(&json!({ "enableMetrics": "false" }));
        assert!(spec.enable_metrics);
        let message = "spec.enableMetrics is \"false\", not true or false; using true";
        assert_eq!(problems, [message]);
    }

    #[test]
    fn missing_fields_are_no_problem() {
        for spec in [json!(null), json!({}), json!({ "interval": null })] {
            assert_eq!(AddonSpec::read(&spec), (AddonSpec::default(), Vec::new()));
        }
    }
}
