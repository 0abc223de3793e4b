//! Flags and defaults that all long-running commands of the addon share.

use std::time::Duration;

use anyhow::Result;
use axum::Router;
use clap::Args;
use kelpie_addon::{AddonOptions, AddonRef};
use kelpie_config::GoDuration;
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::leader::{ElectionSettings, ReplicaRole};
use prometheus_client::registry::Registry;

use crate::component::{self, Loop, PlainLoggingFlags, ServingFlags, identity};
use crate::exit::ExitStatus;
use crate::go_flags::parse_bool;

/// The loop that livez checks.
const CONTROLLER_LOOP: Loop = Loop {
    name: "loop",
    // An iteration may write to a slow spoke, which takes far less than this.
    longest_turn: Duration::from_mins(3),
    ready: "spoke",
};
/// The defaults of Kubernetes' own controllers.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Flags of a long-running command.
#[derive(Args)]
pub(super) struct ServerFlags {
    /// Interval of full reconciliations, which run even if nothing changed
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    resync: GoDuration,

    /// Decide and log everything, but write nothing
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = parse_bool
    )]
    dry_run: bool,

    /// Act only as the elected leader; the Lease is in the namespace of the addon
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = parse_bool,
        help_heading = "Leader election"
    )]
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
        let served = self.serving.open(registry, pages, &CONTROLLER_LOOP).await?;
        served.during(controller).await;
        Ok(())
    }

    /// Returns the options of a controller. `lease` is the Lease for leader election.
    pub(super) fn options(&self, addon: AddonRef, lease: &str) -> AddonOptions {
        let election = self
            .enable_leader_election
            .then(|| election_settings(&addon, lease));
        AddonOptions {
            addon,
            role: ReplicaRole::new(election, self.dry_run),
            identity: identity(),
            resync: self.resync.0,
        }
    }
}

/// Returns the settings of an election with this Lease, in the namespace of the addon.
pub(super) fn election_settings(addon: &AddonRef, lease: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: addon.namespace.clone(),
        name: lease.to_owned(),
        identity: identity(),
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
    }
}
