//! `kelpie check prober`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use futures_util::{StreamExt, stream};
use kelpie_config::{ProberConfig, prober};
use kelpie_kube::leader::ElectionSettings;

use super::frame::{self, File, Output};
use super::progress::Progress;
use super::row::Table;
use super::{cluster, seed};
use crate::cli::Guise;
use crate::component::ElectionFlags;
use crate::exit::Outcome;
use crate::prober::LEASE;
use crate::summary::counted;

/// Clusters that are looked at together.
const AT_ONCE: usize = 16;

/// Would the prober work here?
///
/// Looks at the configuration, the seed (version, custom resources, every permission that the
/// prober uses) and every cluster that would be probed: its kubeconfig, its API server, its
/// leases and nodes. Run it with the prober's own credentials, or what it says about
/// permissions is about you. Nothing is written, nothing is scaled.
///
/// Exits with 0 if nothing failed, else with 1; every failed row says what to do.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Prober {
    /// The prober's configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Look at this cluster only
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,

    #[command(flatten)]
    election: ElectionFlags,
}

impl Prober {
    pub(super) fn run(self, started_as: Guise) -> Result<Outcome> {
        let election = self.election.check(LEASE)?;
        let file = File {
            path: &self.config_file,
            guise: started_as,
            parse: prober::parse,
            sum,
        };
        frame::run(&file, self.output, async |config, table| {
            self.look(config, election.as_ref(), table).await;
        })
    }

    async fn look(
        &self,
        config: &ProberConfig,
        election: Option<&ElectionSettings>,
        table: &mut Table,
    ) {
        let Some(seed) = frame::connect(self.kubeconfig.as_deref(), table).await else {
            return;
        };
        if !seed::look(&seed, config, election, table).await {
            return;
        }
        let landscape = seed::list(&seed, config, table).await;
        let Some(landscape) = landscape else { return };
        let (to_probe, mut rows) = landscape.to_probe(self.cluster.as_deref(), table);
        let mut progress = Progress::new(to_probe.len());
        let looks = to_probe.into_iter();
        let looks = looks.map(|cluster| cluster::look(config, &landscape, cluster));
        let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        while let Some(found) = looks.next().await {
            rows.extend(found);
            progress.advance();
        }
        drop(progress);
        rows.sort_by(|a, b| a.about().cmp(b.about()));
        for row in rows {
            table.add(row);
        }
    }
}

fn sum(config: &ProberConfig) -> String {
    let clusters = config.namespace.as_deref().unwrap_or("all clusters");
    let targets = u32::try_from(config.targets.len()).unwrap_or(u32::MAX);
    format!("{clusters}, {}", counted(targets, "target", "targets"))
}
