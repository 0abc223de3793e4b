//! `kelpie guard`: the guards in the clusters of a seed.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueHint};
use futures_util::{StreamExt, stream};
use kelpie_config::{ProberConfig, prober};
use kelpie_core::prober::guard::{GuardCall, GuardReply};
use kelpie_kube::guard::GuardClient;
use kelpie_kube::tenant::Tenant;
use tokio::time::Instant;

use crate::check::cluster::open_internal;
use crate::check::runner::{self, ConfigFile};
use crate::check::seed::SeedInventory;
use crate::check::table::{CheckRow, CheckTable};
use crate::cli::Invocation;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::printable::readable_instants;

/// The number of clusters that are asked at the same time.
const CONCURRENCY: usize = 16;

/// Show or remove the guards of clusters
///
/// A guard is a policy in a cluster without whose permit no node turns Unknown, see
/// docs/concepts/guard.md. The clusters and their kubeconfigs are found as the prober finds them.
#[derive(Args)]
#[command(verbatim_doc_comment, disable_help_subcommand = true)]
pub(crate) struct Guard {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Subcommand)]
enum GuardCommand {
    /// Show the guard of each cluster: armed or not, until when, and which watchdog keeps it
    ///
    /// Only reads: what is enforced is asked by a dry run. Exits with 0 if every cluster could be
    /// asked, otherwise with 1.
    Status(StatusArgs),

    /// Delete the guard of a cluster, or of all of them
    ///
    /// A prober that runs with a guard in its configuration arms it again within 30 s: turn it off
    /// there first. A guard that no prober keeps runs out by itself.
    Remove(RemoveArgs),
}

#[derive(Args)]
struct ClusterArgs {
    /// The prober's configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

#[derive(Args)]
struct StatusArgs {
    #[command(flatten)]
    clusters: ClusterArgs,

    /// Show this cluster only
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

#[derive(Args)]
struct RemoveArgs {
    #[command(flatten)]
    clusters: ClusterArgs,

    #[command(flatten)]
    selection: RemoveSelection,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct RemoveSelection {
    /// Remove the guard of this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Remove the guards of all clusters that the prober would probe
    #[arg(long)]
    all: bool,
}

impl Guard {
    pub(crate) fn run(self, started_as: Invocation) -> Result<ExitStatus> {
        match self.command {
            GuardCommand::Status(args) => {
                let only = args.cluster.as_deref();
                args.clusters.run(started_as, only, status)
            }
            GuardCommand::Remove(args) => {
                let only = args.selection.cluster.as_deref();
                args.clusters.run(started_as, only, remove)
            }
        }
    }
}

impl ClusterArgs {
    /// Asks each cluster, or `only` one, and prints the rows.
    fn run(
        &self,
        invocation: Invocation,
        only: Option<&str>,
        ask: impl AsyncFn(&ProberConfig, &str, &Tenant) -> CheckRow,
    ) -> Result<ExitStatus> {
        let file = ConfigFile {
            path: &self.config_file,
            invocation,
            parse: prober::parse,
            summarize: |config| match &config.guard {
                Some(_) => "with a guard".to_owned(),
                None => "without a guard".to_owned(),
            },
        };
        runner::run_with_config(&file, self.output, async |config, table| {
            self.ask_clusters(config, only, ask, table).await;
        })
    }

    async fn ask_clusters(
        &self,
        config: &ProberConfig,
        only: Option<&str>,
        ask: impl AsyncFn(&ProberConfig, &str, &Tenant) -> CheckRow,
        table: &mut CheckTable,
    ) {
        let Some(seed) = runner::connect(self.kubeconfig.as_deref(), table).await else {
            return;
        };
        let inventory = SeedInventory::list(&seed, config, table).await;
        let Some(inventory) = inventory else { return };
        let (clusters, mut rows) = inventory.clusters_to_probe(only, table);
        let ask = async |cluster: &str| match open_internal(config, &inventory, cluster) {
            Ok(tenant) => ask(config, cluster, &tenant).await,
            Err(row) => row,
        };
        let mut asked = stream::iter(clusters)
            .map(ask)
            .buffer_unordered(CONCURRENCY);
        while let Some(row) = asked.next().await {
            rows.push(row);
        }
        rows.sort_by(|a, b| a.subject.cmp(&b.subject));
        for row in rows {
            table.add(row);
        }
    }
}

async fn status(config: &ProberConfig, cluster: &str, tenant: &Tenant) -> CheckRow {
    let deadline = Instant::now() + config.probe.probe_timeout;
    match GuardClient::new(tenant, "").view(deadline).await {
        Ok(view) => {
            let finding = readable_instants(&view.to_string());
            if view.is_armed() || (view.policy.is_none() && config.guard.is_none()) {
                CheckRow::ok(cluster, finding)
            } else {
                let remedy = "a prober with a guard in its configuration arms it";
                CheckRow::warn(cluster, finding, remedy)
            }
        }
        Err(problem) => CheckRow::fail(cluster, problem, "kelpie check prober shows the cause"),
    }
}

async fn remove(config: &ProberConfig, cluster: &str, tenant: &Tenant) -> CheckRow {
    let deadline = Instant::now() + config.probe.probe_timeout;
    let client = GuardClient::new(tenant, "");
    let response = client.perform(&GuardCall::Remove, deadline).await;
    match response.reply {
        GuardReply::Removed if config.guard.is_some() => {
            let remedy = "the configuration has a guard: a prober that runs with it arms it again";
            CheckRow::warn(cluster, "removed", remedy)
        }
        GuardReply::Removed => CheckRow::ok(cluster, "removed"),
        _ => {
            let problem = response.problem;
            let problem = problem.unwrap_or_else(|| "the cluster refused to delete it".to_owned());
            CheckRow::fail(cluster, problem, "without a prober it runs out by itself")
        }
    }
}
