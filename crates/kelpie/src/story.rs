//! `kelpie events`.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use clap::Args;
use kelpie_core::prober::overview::{ClusterDetail, Transition};
use kelpie_prober::ProberState;

use crate::exit::ExitStatus;
use crate::explain::{fetch, no_probe};
use crate::output_format::OutputFormat;
use crate::printable::{printable, readable_instant};
use crate::reach::ReachFlags;
use crate::{component, terminal};

/// Show what happened to a cluster
///
/// Prints the changes that the prober remembers, the oldest first: trips, calls, fences, restores
/// and troubles. A prober remembers the last 200 since its start; the log and the Events of the
/// API server tell of earlier ones. It only reads.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Events {
    /// Name of the cluster: of its Cluster object and its control namespace
    cluster: String,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    reach: ReachFlags,
}

impl Events {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        let response = component::run(async {
            let servers = self.reach.servers("events").await?;
            fetch(&servers, &self.cluster).await
        })?;
        let json = match response {
            Ok(json) => json,
            Err(unprobed) => bail!(no_probe(&self.cluster, &unprobed)),
        };
        let detail = detail(&json, &self.cluster).context(
            "the prober does not answer with the history of the cluster; it is of another version",
        )?;
        let text = match self.output {
            OutputFormat::Json => terminal::json(&detail.history)?,
            OutputFormat::Text => story(&self.cluster, &detail),
        };
        terminal::stdout(&text).context("cannot write the events")?;
        Ok(ExitStatus::Success)
    }
}

fn detail(json: &str, cluster: &str) -> Option<ClusterDetail> {
    let mut prober: ProberState = serde_json::from_str(json).ok()?;
    prober.clusters.remove(cluster)?.detail
}

/// Formats the history of a cluster in a line for each transition.
fn story(cluster: &str, detail: &ClusterDetail) -> String {
    let (summary, history) = (&detail.summary, &detail.history);
    let mut text = String::new();
    for transition in history {
        let Transition {
            at,
            kind,
            text: what,
            count,
            last_at,
        } = transition;
        let mut line = format!("{}  {:<8}  {what}", readable_instant(*at), kind.as_str());
        if *count > 1 {
            // Writing to a String cannot fail.
            let _ = write!(
                line,
                " ({count} times, last {})",
                readable_instant(*last_at)
            );
        }
        text.push_str(&printable(&line));
        text.push('\n');
    }
    if history.is_empty() {
        text.push_str("nothing has happened to it since the prober started\n");
    }
    let now = printable(&summary.sentence);
    let _ = writeln!(text, "\n{cluster} is now: {}. {now}", summary.condition);
    text
}
