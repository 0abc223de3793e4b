//! Who is busy: processor time of the servers, and what the seed's API server says of itself.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::Outage;
use crate::process::{self, Process};

/// So many kinds of requests are told.
const MOST: usize = 6;

/// What everybody has used up to now.
#[derive(Debug, Clone)]
pub struct Meter {
    at: Instant,
    processor: Vec<(&'static str, Duration)>,
    requests: Requests,
    /// By verb and resource.
    kinds: BTreeMap<String, f64>,
}

/// Requests to the seed's API server, by its own metrics.
#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    /// Writes to Deployments and their scale: how many, and for how many seconds it held them.
    writes: f64,
    held: f64,
    events: f64,
    /// Answered with 429.
    throttled: f64,
}

/// What was used between two readings.
#[derive(Debug)]
pub struct Load {
    before: Meter,
    after: Meter,
}

impl Meter {
    /// Reads all of them now.
    pub async fn read(outage: &Outage, prober: &Process) -> Result<Self> {
        let plane = &outage.seed.plane;
        let at = Instant::now();
        let servers = [
            (
                "the seed's API server",
                plane.api.process().processor_time()?,
            ),
            ("etcd", plane.etcd.process().processor_time()?),
            ("the prober", prober.processor_time()?),
            ("this benchmark itself", process::own_processor_time()?),
        ];
        let shoots = outage.server.processor_time()?;
        let shoots = shoots.map(|time| ("the shoots' API server", time));
        let processor = servers.into_iter().chain(shoots).collect();
        let answer = crate::get(&outage.seed.client, "/metrics", "text/plain").await?;
        let text = String::from_utf8_lossy(&answer.body);
        Ok(Self {
            at,
            processor,
            requests: Requests::of(&text),
            kinds: kinds(&text),
        })
    }

    /// What was used since.
    pub fn until(self, after: Self) -> Load {
        Load {
            before: self,
            after,
        }
    }
}

impl Load {
    /// Requests that the API server refused because there were too many.
    pub fn throttled(&self) -> f64 {
        self.after.requests.throttled - self.before.requests.throttled
    }
}

impl Requests {
    fn of(text: &str) -> Self {
        let mut all = Self::default();
        for (labels, value) in samples(text) {
            let is = |label: &str| labels.contains(label);
            let is_write =
                is(r#"resource="deployments""#) && is(r#"verb="PATCH""#) && !is("status");
            if labels.starts_with("apiserver_request_duration_seconds_count{") && is_write {
                all.writes += value;
            } else if labels.starts_with("apiserver_request_duration_seconds_sum{") && is_write {
                all.held += value;
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

/// How many requests of each kind there have been.
fn kinds(text: &str) -> BTreeMap<String, f64> {
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

/// Names with their labels, and values.
fn samples(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (labels, value) = line.rsplit_once(' ')?;
        Some((labels, value.parse().ok()?))
    })
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after } = self;
        let seconds = (after.at - before.at).as_secs_f64();
        writeln!(f, "| in these {seconds:.1} s | |\n|---|---|")?;
        for ((name, before), (_, after)) in before.processor.iter().zip(&after.processor) {
            let used = after.saturating_sub(*before).as_secs_f64();
            writeln!(f, "| processors used by {name} | {:.2} |", used / seconds)?;
        }
        let (from, to) = (before.requests, after.requests);
        let writes = to.writes - from.writes;
        let mean = (to.held - from.held) / writes.max(1.0) * 1_000.0;
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
        let most = kinds.iter().take(MOST);
        let most = most.map(|(kind, count)| format!("{kind} {count:.0}"));
        let most = most.collect::<Vec<_>>().join(", ");
        writeln!(f, "| the most frequent requests | {most} |")
    }
}
