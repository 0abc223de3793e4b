//! Flags and defaults that all long-running commands of the addon share.

use std::time::Duration;

use anyhow::Result;
use axum::Router;
use clap::Args;
use kelpie_addon::{AddonOptions, AddonRef};
use kelpie_config::GoDuration;
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::leader::ReplicaRole;
use prometheus_client::registry::Registry;

use crate::component::{self, Loop, PlainLoggingFlags, ServingFlags, default_election, identity};
use crate::exit::ExitStatus;
use crate::go_flags::go_bools;

/// The loop that livez checks.
const CONTROLLER_LOOP: Loop = Loop {
    name: "loop",
    // An iteration may write to a slow spoke, which takes far less than this.
    longest_turn: Duration::from_mins(3),
    ready: "spoke",
};
/// Flags of a long-running command.
#[derive(Args)]
#[command(
    mut_args(go_bools(&["dry_run", "enable_leader_election"]))
)]
pub(super) struct ServerFlags {
    /// Interval of full reconciliations, which run even if nothing changed
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    resync: GoDuration,

    /// Decide and log everything, but write nothing
    #[arg(long, hide_default_value = true)]
    dry_run: bool,

    /// Act only as the elected leader; the Lease is in the namespace of the addon
    #[arg(long, help_heading = "Leader election")]
    enable_leader_election: bool,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    logging: PlainLoggingFlags,
}

impl ServerFlags {
    /// Runs `serve` to its end in a new runtime.
    pub(super) fn run(&self, serve: impl Future<Output = Result<()>>) -> Result<ExitStatus> {
        if self.resync.0.is_zero() {
            return Err(crate::cli::usage_error("--resync must be longer than 0s"));
        }
        self.logging.start();
        component::run(serve)?;
        Ok(ExitStatus::Success)
    }

    /// Serves metrics, `pages` and the health checks while the controller runs.
    pub(super) async fn during<F: Future<Output = ()>>(
        &self,
        registry: Registry,
        pages: Router,
        controller: impl FnOnce(LoopHeartbeat, ReadyHandle) -> F,
    ) -> Result<()> {
        let served = self
            .serving
            .open(registry, pages, &CONTROLLER_LOOP, self.dry_run)
            .await?;
        served.during(controller).await;
        Ok(())
    }

    /// Returns the options of a controller. `lease` is the Lease for leader election.
    pub(super) fn options(&self, addon: AddonRef, lease: &str) -> AddonOptions {
        let election = || default_election(&addon.namespace, lease);
        let election = self.enable_leader_election.then(election);
        AddonOptions {
            addon,
            role: ReplicaRole::new(election, self.dry_run),
            identity: identity(),
            resync: self.resync.0,
        }
    }
}
