//! The load of the processes: their CPU time, and the metrics of the seed's API server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::Outage;
use crate::process::{self, ServerProcess};

/// The number of kinds of requests in a report.
const MAX_KINDS: usize = 6;

/// The counters of all processes at one time.
#[derive(Debug, Clone)]
pub struct LoadSnapshot {
    at: Instant,
    cpu_times: Vec<(&'static str, Duration)>,
    requests: RequestCounts,
    /// The number of requests by verb and resource.
    kinds: BTreeMap<String, f64>,
}

/// Requests to the seed's API server, from its metrics.
#[derive(Debug, Clone, Copy, Default)]
struct RequestCounts {
    /// The number of writes to Deployments and their scale.
    writes: f64,
    /// The seconds that the API server took for them.
    write_seconds: f64,
    events: f64,
    /// The number of responses with status 429.
    throttled: f64,
}

/// The load between two snapshots. Displays as a Markdown table.
#[derive(Debug)]
pub struct LoadReport {
    before: LoadSnapshot,
    after: LoadSnapshot,
}

impl LoadSnapshot {
    /// Reads all counters now.
    pub async fn take(outage: &Outage, prober: &ServerProcess) -> Result<Self> {
        let control_plane = &outage.seed.control_plane;
        let at = Instant::now();
        let servers = [
            (
                "the seed's API server",
                control_plane.api.process().cpu_time()?,
            ),
            ("etcd", control_plane.etcd.process().cpu_time()?),
            ("the prober", prober.cpu_time()?),
            ("this benchmark itself", process::own_cpu_time()?),
        ];
        let shoots = outage.server.cpu_time()?;
        let shoots = shoots.map(|time| ("the shoots' API server", time));
        let cpu_times = servers.into_iter().chain(shoots).collect();
        let response = crate::get_raw(&outage.seed.client, "/metrics", "text/plain").await?;
        let text = String::from_utf8_lossy(&response.body);
        Ok(Self {
            at,
            cpu_times,
            requests: RequestCounts::parse(&text),
            kinds: requests_by_kind(&text),
        })
    }

    /// Returns the load from this snapshot to a later one.
    pub fn until(self, after: Self) -> LoadReport {
        LoadReport {
            before: self,
            after,
        }
    }
}

impl LoadReport {
    /// The number of requests that the API server throttled with status 429.
    pub fn throttled(&self) -> f64 {
        self.after.requests.throttled - self.before.requests.throttled
    }
}

impl RequestCounts {
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for (labels, value) in samples(text) {
            let is = |label: &str| labels.contains(label);
            let is_write =
                is(r#"resource="deployments""#) && is(r#"verb="PATCH""#) && !is("status");
            if labels.starts_with("apiserver_request_duration_seconds_count{") && is_write {
                all.writes += value;
            } else if labels.starts_with("apiserver_request_duration_seconds_sum{") && is_write {
                all.write_seconds += value;
            } else if labels.starts_with("apiserver_request_total{") {
                if is(r#"code="429""#) {
                    all.throttled += value;
                }
                if is(r#"resource="events""#) && !is(r#"verb="WATCH""#) {
                    all.events += value;
                }
            }
        }
        all
    }
}

/// Counts the requests by verb, resource and subresource.
fn requests_by_kind(text: &str) -> BTreeMap<String, f64> {
    let mut kinds = BTreeMap::new();
    for (labels, value) in samples(text) {
        if let Some(labels) = labels.strip_prefix("apiserver_request_total{") {
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split('"').next().filter(|value| !value.is_empty())
            };
            let words = ["verb", "resource", "subresource"].map(label);
            let kind = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
            *kinds.entry(kind).or_insert(0.0) += value;
        }
    }
    kinds
}

/// Parses the metrics page into series, as name with labels, and value.
fn samples(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (labels, value) = line.rsplit_once(' ')?;
        Some((labels, value.parse().ok()?))
    })
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after } = self;
        let seconds = (after.at - before.at).as_secs_f64();
        writeln!(f, "| in these {seconds:.1} s | |\n|---|---|")?;
        for ((name, before), (_, after)) in before.cpu_times.iter().zip(&after.cpu_times) {
            let used = after.saturating_sub(*before).as_secs_f64();
            writeln!(f, "| processors used by {name} | {:.2} |", used / seconds)?;
        }
        let (from, to) = (before.requests, after.requests);
        let writes = to.writes - from.writes;
        let mean = (to.write_seconds - from.write_seconds) / writes.max(1.0) * 1_000.0;
        writeln!(
            f,
            "| writes to Deployments, a second | {:.0} |",
            writes / seconds
        )?;
        writeln!(
            f,
            "| the API server held each for (its own metric) | {mean:.0} ms |"
        )?;
        writeln!(f, "| Events posted | {:.0} |", to.events - from.events)?;
        writeln!(f, "| answered with 429 | {:.0} |", self.throttled())?;
        let more = |(kind, count): (&String, &f64)| {
            let before = before.kinds.get(kind).copied().unwrap_or_default();
            (kind.clone(), count - before)
        };
        let mut kinds: Vec<(String, f64)> = after.kinds.iter().map(more).collect();
        kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
        let most = kinds.iter().take(MAX_KINDS);
        let most = most.map(|(kind, count)| format!("{kind} {count:.0}"));
        let most = most.collect::<Vec<_>>().join(", ");
        writeln!(f, "| the most frequent requests | {most} |")
    }
}
