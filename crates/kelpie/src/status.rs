//! `kelpie status`.

mod table;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use http::StatusCode;
use kelpie_core::PauseSwitch;
use kelpie_core::prober::overview::{ClusterSummary, FleetState};
use serde::Serialize;
use tokio::time::sleep;

use crate::exit::ExitStatus;
use crate::reach::{ReachFlags, Server};
use crate::{component, terminal};

/// The time between two looks of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);
/// Moves to the upper left corner and clears what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// Show all clusters, the troubled ones first
///
/// Asks the leader of the prober, which is found through the kubeconfig: the holder of the leader
/// Lease, reached by a port-forward of the API server. With shards, all leaders are asked. That
/// takes the permissions to list Leases, to get pods and to create pods/portforward in the
/// namespace. It only reads.
///
/// Exit codes: 0 if no cluster needs an operator, 4 if one does, or if the prober is paused or does
/// not know its clusters yet, 1 if
/// no prober could be asked.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Status {
    /// Ask again every 2 s, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Only clusters that need an operator
    #[arg(long)]
    troubled: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: StatusFormat,

    #[command(flatten)]
    reach: ReachFlags,
}

/// The form in which the clusters are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// A table
    Text,
    /// A table with the problems in full
    Wide,
    /// One JSON object, for scripts
    Json,
    /// The same as YAML
    Yaml,
}

/// The states of all shards, as one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fleet {
    /// The probers that were asked, without their clusters.
    probers: Vec<FleetState>,
    /// The clusters of all of them, the most urgent ones first.
    clusters: Vec<ClusterSummary>,
}

impl Fleet {
    fn new(mut probers: Vec<FleetState>, only_troubled: bool) -> Self {
        let clusters = probers.iter_mut();
        let clusters = clusters.flat_map(|prober| std::mem::take(&mut prober.clusters));
        let mut clusters: Vec<_> = clusters
            .filter(|cluster| !only_troubled || cluster.condition.needs_you())
            .collect();
        clusters.sort_by_cached_key(|it| (it.condition, it.since, it.id.clone()));
        Self { probers, clusters }
    }

    fn needs_you(&self) -> bool {
        let needs_you = |prober: &FleetState| {
            let replica = &prober.replica;
            replica.pause != PauseSwitch::Off || replica.waiting.is_some()
        };
        self.clusters.iter().any(|it| it.condition.needs_you())
            || self.probers.iter().any(needs_you)
    }
}

impl Status {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        component::run(async {
            let servers = self.reach.servers("status").await?;
            if self.watch {
                return self.watch(&servers).await;
            }
            let fleet = self.fetch(&servers).await?;
            self.print(&fleet, "")?;
            Ok(if fleet.needs_you() {
                ExitStatus::Attention
            } else {
                ExitStatus::Success
            })
        })
    }

    /// Prints the clusters again and again. A prober that is away is reported and asked again.
    async fn watch(&self, servers: &[Server]) -> Result<ExitStatus> {
        let mut found: Option<Vec<Server>> = None;
        loop {
            let current = found.as_deref().unwrap_or(servers);
            match self.fetch(current).await {
                Ok(fleet) => self.print(&fleet, CLEAR)?,
                Err(error) => {
                    terminal::stderr(&format!("stale: {error:#}\n"))?;
                    // There may be another leader.
                    found = self.reach.servers("status").await.ok().or(found);
                }
            }
            sleep(INTERVAL).await;
        }
    }

    async fn fetch(&self, servers: &[Server]) -> Result<Fleet> {
        let mut probers = Vec::new();
        for server in servers {
            let (status, body) = server.get("/debug/state?summary").await?;
            if status != StatusCode::OK {
                return Err(server.unexpected(status));
            }
            let state = serde_json::from_slice(&body);
            probers.push(state.with_context(|| {
                format!(
                    "{} does not answer as a prober of this version",
                    server.name
                )
            })?);
        }
        Ok(Fleet::new(probers, self.troubled))
    }

    fn print(&self, fleet: &Fleet, before: &str) -> Result<()> {
        let text = match self.output {
            StatusFormat::Text => table::table(fleet, false),
            StatusFormat::Wide => table::table(fleet, true),
            StatusFormat::Json => terminal::json(fleet)?,
            StatusFormat::Yaml => serde_saphyr::to_string(fleet)?,
        };
        terminal::stdout(&format!("{before}{text}")).context("cannot write the clusters")
    }
}
