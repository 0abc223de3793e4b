//! `kelpie check prober`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use futures_util::{StreamExt, stream};
use kelpie_config::{ProberConfig, prober};
use kelpie_kube::leader::ElectionSettings;
use kelpie_prober::open_files_needed;

use super::runner::{self, ConfigFile};
use super::seed::SeedInventory;
use super::table::{CheckRow, CheckTable};
use super::{cluster, guard, seed, shards};
use crate::cli::Invocation;
use crate::component::ElectionFlags;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::prober::{LEASE, with_lease};
use crate::summary::pluralize;
use crate::{open_files, terminal};

/// The number of clusters that are checked at the same time.
const CONCURRENCY: usize = 16;
/// Up to this number of clusters no progress is shown: the check ends before it could be read.
const FEW: usize = 16;

/// Check that the prober can run here
///
/// Checks the configuration, the seed (version, custom resources, every permission that the
/// prober uses) and every cluster that would be probed: its kubeconfig, API server, leases and
/// nodes. Run it with the prober's own credentials; otherwise the permissions shown are yours.
/// It only reads: nothing is written or scaled.
///
/// Exits with 0 if no row failed, otherwise with 1. Every warning and failure has a remedy.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct CheckProber {
    /// The prober's configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Check this cluster only
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    election: ElectionFlags,
}

impl CheckProber {
    pub(super) fn run(self, started_as: Invocation) -> Result<ExitStatus> {
        let election = self.election.check(LEASE)?;
        let file = ConfigFile {
            path: &self.config_file,
            invocation: started_as,
            parse: prober::parse,
            summarize,
        };
        runner::run_with_config(&file, self.output, async |config, table| {
            let election = election
                .clone()
                .map(|it| with_lease(it, config, started_as));
            self.check(config, election.as_ref(), table).await;
        })
    }

    async fn check(
        &self,
        config: &ProberConfig,
        election: Option<&ElectionSettings>,
        table: &mut CheckTable,
    ) {
        let Some(seed) = runner::connect(self.kubeconfig.as_deref(), table).await else {
            return;
        };
        if !seed::check(&seed, config, election, table).await {
            return;
        }
        let inventory = SeedInventory::list(&seed, config, table).await;
        let Some(inventory) = inventory else { return };
        let (mut to_probe, mut rows) = inventory.clusters_to_probe(self.cluster.as_deref(), table);
        if let Some(shard) = &config.shard {
            let namespace = self.election.namespace();
            let (row, own) = shards::check(&seed, namespace, shard, &inventory).await;
            table.add(row);
            to_probe.retain(|cluster| own.contains(*cluster));
        }
        let all = to_probe.len();
        if let Some(row) = check_open_files(open_files::raise_limit(), all) {
            table.add(row);
        }
        if config.guard.is_none() {
            table.add(guard::off());
        }
        let has_progress = all > FEW && io::stderr().is_terminal();
        // One line on the terminal, which is overwritten in place.
        let show_progress = |text: &str| {
            if has_progress {
                // A check must not fail because its progress cannot be shown.
                let _ = terminal::stderr(&format!("\r\u{1b}[2K{text}"));
            }
        };
        let checks = to_probe.into_iter();
        let checks = checks.map(|cluster| cluster::check(config, &inventory, cluster));
        let mut checks = stream::iter(checks).buffer_unordered(CONCURRENCY);
        let mut done = 0;
        while let Some(results) = checks.next().await {
            rows.extend(results);
            done += 1;
            show_progress(&format!("checked {done} of {all} clusters"));
        }
        show_progress("");
        rows.sort_by(|a, b| a.subject.cmp(&b.subject));
        for row in rows {
            table.add(row);
        }
    }
}

/// Returns a row if the limit on open files, which the prober raises as far as it may, is too low
/// for this many clusters.
fn check_open_files(limit: u64, clusters: usize) -> Option<CheckRow> {
    let needed = open_files_needed(clusters);
    let clusters = pluralize(clusters, "cluster", "clusters");
    let finding = format!("limit {limit}, but {clusters} need {needed}");
    let remedy = "raise the hard limit of the container runtime (LimitNOFILE); if the prober runs \
                  elsewhere, its own limit counts";
    (limit < needed).then(|| CheckRow::warn("open files", finding, remedy))
}

fn summarize(config: &ProberConfig) -> String {
    let clusters = config.namespace.as_deref().unwrap_or("all clusters");
    let targets = pluralize(config.targets.len(), "target", "targets");
    format!("{clusters}, {targets}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limit_on_open_files_warns() {
        assert_eq!(check_open_files(1_300, 100), None);
        let row = format!("{:?}", check_open_files(1_299, 100));
        assert!(
            row.contains("limit 1299, but 100 clusters need 1300"),
            "{row}"
        );
        assert!(row.contains("status: Warn"), "{row}");
    }
}
