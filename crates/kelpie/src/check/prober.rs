//! `kelpie check prober`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use futures_util::{StreamExt, stream};
use kelpie_config::{ProberConfig, prober};
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{Seed, SeedOptions};
use tokio::runtime;

use super::progress::Progress;
use super::row::{Row, Table};
use super::{cluster, seed};
use crate::cli::Guise;
use crate::exit::Outcome;
use crate::prober::ElectionFlags;
use crate::source::Source;
use crate::summary::counted;
use crate::terminal;

/// Clusters that are looked at together.
const AT_ONCE: usize = 16;
/// Gardener's own settings for the prober: the check needs no more.
const QPS: f32 = 20.0;
const BURST: u32 = 100;

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For scripts
    Json,
}

impl Prober {
    pub(super) fn run(self, started_as: Guise) -> Result<Outcome> {
        let election = self.election.check("kelpie check")?;
        kelpie_net::install_crypto();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let mut table = Table::default();
        if let Some(config) = self.configuration(started_as, &mut table)? {
            runtime.block_on(self.look(&config, election.as_ref(), &mut table));
        }
        let text = match self.output {
            Output::Text => table.text(),
            Output::Json => table.json()?,
        };
        terminal::stdout(&text).context("cannot write the answer")?;
        Ok(table.outcome())
    }

    /// `None`: it cannot be used, and the rest of the check would be about nothing.
    fn configuration(&self, guise: Guise, table: &mut Table) -> Result<Option<ProberConfig>> {
        const ABOUT: &str = "configuration";
        let source = Source::file(&self.config_file);
        let name = source.name();
        let bytes = source.read()?;
        let (config, problems) = match prober::parse(&bytes, guise.strictness()) {
            Ok(parsed) => (Some(parsed.value), parsed.warnings),
            Err(report) => (None, report.problems),
        };
        if let Some(config) = &config {
            let clusters = config.namespace.as_deref().unwrap_or("all clusters");
            let targets = u32::try_from(config.targets.len()).unwrap_or(u32::MAX);
            let targets = counted(targets, "target", "targets");
            let found = format!("{name} can be used: {clusters}, {targets}");
            table.add(Row::ok(ABOUT, found));
        }
        for problem in problems {
            let (line, column) = (problem.line, problem.column);
            let found = format!("{name}:{line}:{column}: {}", problem.text());
            table.add(match problem.severity {
                kelpie_config::Severity::Error => {
                    Row::fail(ABOUT, found, "correct it; docs/config.md has every key")
                }
                kelpie_config::Severity::Warning => {
                    Row::warn(ABOUT, found, "the file can be used; is this what you mean?")
                }
            });
        }
        Ok(config)
    }

    async fn look(
        &self,
        config: &ProberConfig,
        election: Option<&ElectionSettings>,
        table: &mut Table,
    ) {
        let options = SeedOptions {
            kubeconfig: self.kubeconfig.clone(),
            qps: QPS,
            burst: BURST,
            user_agent: format!("kelpie/{} (check)", env!("CARGO_PKG_VERSION")),
        };
        let seed = match Seed::connect(&options).await {
            Ok(seed) => seed,
            Err(error) => {
                let remedy = "name a kubeconfig with --kubeconfig";
                table.add(Row::fail("seed", error.to_string(), remedy));
                return;
            }
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
