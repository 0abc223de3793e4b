//! Metrics of the process, read on every scrape, and of the build.
//!
//! They have the names that every Prometheus client library gives them, so that dashboards for
//! processes work.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};

/// The unit of times under `/proc`. The kernel reports them in hundredths of a second on every
/// platform that Kelpie is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Registers the metrics of this process and its build.
pub(crate) fn register_process_metrics(registry: &mut Registry) {
    let build = Family::<[(&str, &str); 1], Gauge>::default();
    build
        .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    registry.register(
        "kelpie_build_info",
        "1, with the version of Kelpie as a label",
        build,
    );
    registry.register_collector(Box::new(ProcessCollector {
        start: start_time().unwrap_or_default(),
    }));
}

#[derive(Debug)]
struct ProcessCollector {
    /// The start of the process, in seconds since the Unix epoch.
    start: f64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let help = "CPU time of the process, in user and kernel mode";
            let counter = MetricType::Counter;
            let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory of the process",
                resident_bytes(),
            ),
            (
                "process_open_fds",
                "Open file descriptors of the process",
                open_files(),
            ),
            (
                "process_max_fds",
                "Limit on open file descriptors of the process",
                getrlimit(Resource::Nofile).current,
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
        }
        let metric = encoder.encode_descriptor(
            "process_start_time_seconds",
            "Start of the process, in seconds since the Unix epoch",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.start).encode(metric)
    }
}

/// Returns the fields of `/proc/self/stat` after the name, which may contain anything.
fn stat() -> Option<Vec<f64>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    // The first one is a letter.
    let fields = fields.split_ascii_whitespace().skip(1);
    Some(fields.filter_map(|field| field.parse().ok()).collect())
}

fn cpu_seconds() -> Option<f64> {
    let fields = stat()?;
    Some((fields.get(10)? + fields.get(11)?) / TICKS_PER_SECOND)
}

fn start_time() -> Option<f64> {
    let since_boot = stat()?.get(18)? / TICKS_PER_SECOND;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + since_boot)
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

fn open_files() -> Option<u64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    // The listing itself needs one.
    u64::try_from(open.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use prometheus_client::encoding::text::encode;

    use super::*;

    fn scrape() -> String {
        let mut registry = Registry::default();
        register_process_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    fn value(text: &str, name: &str) -> f64 {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines()
            .find_map(value)
            .unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn process_is_measured() {
        let text = scrape();
        assert!(value(&text, "process_cpu_seconds_total") >= 0.0);
        assert!(value(&text, "process_resident_memory_bytes") > 1e6);
        assert!(value(&text, "process_max_fds") > 3.0);
        let version = env!("CARGO_PKG_VERSION");
        let build = format!("kelpie_build_info{{version=\"{version}\"}} 1\n");
        assert!(text.contains(&build), "{text}");
    }

    #[test]
    fn opened_files_are_counted() {
        let before = open_files().unwrap();
        let files: Vec<_> = (0..50).map(|_| File::open("/proc/self/stat")).collect();
        let after = open_files().unwrap();
        // Other tests open and close some, too.
        assert!(after >= before + 25, "{before} {after}");
        drop(files);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the kernel's clock is compared with the host's"
    )]
    fn start_is_in_the_recent_past() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - start_time().unwrap();
        assert!((-2.0..3_600.0).contains(&age), "{age}");
    }
}
