//! Who is busy: processor time of the servers, and what the seed's API server says of itself.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use tokio::time::Instant;

use super::Outage;
use crate::process::{self, Process};

/// What everybody has used up to now.
#[derive(Debug, Clone)]
pub struct Meter {
    at: Instant,
    processor: Vec<(&'static str, Duration)>,
    requests: Requests,
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
        let processor = vec![
            (
                "the seed's API server",
                plane.api.process().processor_time()?,
            ),
            ("etcd", plane.etcd.process().processor_time()?),
            (
                "the shoots' API server",
                outage.api().process().processor_time()?,
            ),
            ("the prober", prober.processor_time()?),
            (
                "pods and watches of this benchmark",
                process::own_processor_time()?,
            ),
        ];
        Ok(Self {
            at,
            processor,
            requests: Requests::read(&outage.seed.client).await?,
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
    async fn read(client: &Client) -> Result<Self> {
        let answer = crate::get(client, "/metrics", "text/plain").await?;
        let text = String::from_utf8_lossy(&answer.body);
        let mut all = Self::default();
        for line in text.lines() {
            let Some((labels, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else {
                continue;
            };
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
        Ok(all)
    }
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
        writeln!(f, "| answered with 429 | {:.0} |", self.throttled())
    }
}
