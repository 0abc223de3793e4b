//! `kelpie prober`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_config::ProberConfig;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::Seed;
use kelpie_prober::Options;
use prometheus_client::registry::Registry;
use tracing::info;

use crate::cli::Guise;
use crate::component::{
    self, ElectionFlags, LoggingFlags, Loop, SeedFlags, ServingFlags, identity,
};
use crate::exit::Outcome;
use crate::go_flags::boolean;
use crate::{config_file, signals};

/// The Lease of the leader, as dependency-watchdog calls it: the two never act at the same time.
pub(crate) const LEASE: &str = "dwd-prober-leader-election";
/// The loop that must not stop.
pub(crate) const TURNING: Loop = Loop::of_seed("fleet");

/// Fence the controllers of clusters whose nodes are cut off, and restore them afterwards
///
/// Watches the node leases of every cluster of a seed. When the kubelets of a cluster lose their
/// API server, the controllers named in the configuration are scaled down before the first node
/// turns Unknown; when the nodes are back, they are scaled up to exactly what they were.
///
/// It takes the configuration file, the flags and the RBAC of Gardener's dependency-watchdog.
/// Flags may be written with one dash, and booleans as --flag=true.
///
/// The metrics address also serves /debug/state, which `kelpie explain` reads; the health address
/// serves /livez, /readyz and, as dependency-watchdog does, /healthz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Prober {
    /// The configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// Decide and report everything, write nothing
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = boolean
    )]
    dry_run: bool,

    /// Connect to the clusters anew in every round
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = boolean
    )]
    fresh_connections: bool,

    #[command(flatten)]
    seed: SeedFlags,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    logging: LoggingFlags,
}

impl Prober {
    pub(crate) fn run(self, guise: Guise) -> Result<Outcome> {
        self.logging.start();
        let election = self.election.check(LEASE)?;
        let config = config_file::prober(&self.config_file, guise)?;
        component::run(self.serve(config, election))?;
        Ok(Outcome::Success)
    }

    async fn serve(self, config: ProberConfig, election: Option<ElectionSettings>) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let seed = Seed::connect(&self.seed.options("prober")).await?;
        let mut registry = Registry::default();
        let options = Options {
            dry_run: self.dry_run,
            fresh_connections: self.fresh_connections,
            election,
            identity: identity(),
            event_namespace: self.election.namespace().to_owned(),
        };
        let clusters = config.namespace.clone();
        let prober = kelpie_prober::Prober::new(config, options, seed, &mut registry);
        let served = self.serving.open(registry, prober.routes(), &TURNING);
        let served = served.await?;
        info!(
            dry_run = self.dry_run,
            "watching over {}",
            clusters.as_deref().unwrap_or("all clusters of the seed")
        );
        let run = |pulse, ready| prober.run(shutdown, pulse, ready);
        served.during(run).await;
        Ok(())
    }
}
