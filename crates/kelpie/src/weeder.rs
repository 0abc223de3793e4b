//! `kelpie weeder`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_config::WeederConfig;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::Seed;
use kelpie_weeder::Options;
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
pub(crate) const LEASE: &str = "dwd-weeder-leader-election";
/// The loop that must not stop.
pub(crate) const TURNING: Loop = Loop::of_seed("lookout");

/// Restart crashing pods as soon as the service they need is back
///
/// Watches the EndpointSlices of the services in the configuration. When a service comes back, its
/// dependants that wait in CrashLoopBackOff are deleted, so that their controllers make new ones
/// now instead of after a back-off of up to five minutes; for a while after that as well.
///
/// It takes the configuration file, the flags and the RBAC of Gardener's dependency-watchdog.
/// Flags may be written with one dash, and booleans as --flag=true.
///
/// The metrics address also serves /debug/state: every service, its window and what was done; the
/// health address serves /livez, /readyz and, as dependency-watchdog does, /healthz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Weeder {
    /// The configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// Decide and report everything, delete nothing
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

    /// Only the services of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    seed: SeedFlags,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    logging: LoggingFlags,
}

impl Weeder {
    pub(crate) fn run(self, guise: Guise) -> Result<Outcome> {
        self.logging.start();
        let election = self.election.check(LEASE)?;
        let config = config_file::weeder(&self.config_file, guise)?;
        component::run(self.serve(config, election))?;
        Ok(Outcome::Success)
    }

    async fn serve(self, config: WeederConfig, election: Option<ElectionSettings>) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let seed = Seed::connect(&self.seed.options("weeder")).await?;
        let mut registry = Registry::default();
        let dry_run = self.dry_run || config.dry_run;
        let options = Options {
            dry_run,
            namespace: self.namespace.clone(),
            election,
            identity: identity(),
        };
        let services = config.services.len();
        let weeder = kelpie_weeder::Weeder::new(config, options, seed, &mut registry, shutdown);
        let served = self.serving.open(registry, weeder.routes(), &TURNING);
        let served = served.await?;
        let namespaces = self.namespace.as_deref().unwrap_or("all namespaces");
        info!(dry_run, services, "watching services in {namespaces}");
        let run = |pulse, ready| weeder.run(pulse, ready);
        served.during(run).await;
        Ok(())
    }
}
