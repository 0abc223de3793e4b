//! `kelpie weeder`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_config::WeederConfig;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::ElectionSettings;
use kelpie_weeder::WeederOptions;
use prometheus_client::registry::Registry;
use tracing::info;

use crate::cli::Invocation;
use crate::component::{
    self, ElectionFlags, LoggingFlags, Loop, SeedFlags, ServingFlags, identity,
};
use crate::exit::ExitStatus;
use crate::go_flags::go_bools;
use crate::{config_file, open_files, signals};

/// The Lease of the leader has dependency-watchdog's name, so that the two never act at the same
/// time.
pub(crate) const LEASE: &str = "dwd-weeder-leader-election";
/// The loop whose heartbeat livez checks.
pub(crate) const TURNING: Loop = Loop::of_seed("lookout");

/// Restart crashing pods as soon as the service they need has recovered
///
/// Watches the EndpointSlices of the services in the configuration. When a service recovers, its
/// dependants in CrashLoopBackOff are deleted, so that their controllers create new ones now
/// instead of after a back-off of up to five minutes. This goes on for a while after the recovery.
///
/// It accepts the configuration file, the flags and the RBAC of Gardener's dependency-watchdog.
/// Flags may have a single dash, and booleans may be written as --flag=true.
///
/// The metrics address also serves /debug/state: every service, its window and its last actions.
/// The health address serves /livez, /readyz and, like dependency-watchdog, /healthz.
#[derive(Args)]
#[command(verbatim_doc_comment, mut_args(go_bools(&["dry_run"])))]
pub(crate) struct Weeder {
    /// Configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// Decide and report everything, but delete nothing
    #[arg(long, hide_default_value = true)]
    dry_run: bool,

    /// Watch only the services of this namespace
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
    pub(crate) fn run(self, invocation: Invocation) -> Result<ExitStatus> {
        self.logging.start();
        let election = self.election.check(LEASE)?;
        let config = config_file::weeder(&self.config_file, invocation)?;
        component::run(self.serve(config, election))?;
        Ok(ExitStatus::Success)
    }

    async fn serve(self, config: WeederConfig, election: Option<ElectionSettings>) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let seed = ClusterClient::connect(&self.seed.options("weeder")).await?;
        let mut registry = Registry::default();
        let dry_run = self.dry_run || config.dry_run;
        let options = WeederOptions {
            dry_run,
            namespace: self.namespace.clone(),
            election,
            identity: identity(),
        };
        let services = config.services.len();
        let weeder = kelpie_weeder::Weeder::new(config, options, seed, &mut registry, shutdown)
            .with_open_files_limit(open_files::raise_limit());
        let serving = &self.serving;
        let served = serving.open(registry, weeder.routes(), &TURNING, dry_run);
        let served = served.await?;
        let namespaces = self.namespace.as_deref().unwrap_or("all namespaces");
        info!(dry_run, services, "watching services in {namespaces}");
        let run = |heartbeat, ready| weeder.run(heartbeat, ready);
        served.during(run).await;
        Ok(())
    }
}
