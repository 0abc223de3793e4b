//! What the addon's servers have in common.

use std::time::Duration;

use anyhow::Result;
use axum::Router;
use clap::Args;
use kelpie_addon::{AddonRef, Options};
use kelpie_config::GoDuration;
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::leader::{ElectionSettings, Part};
use prometheus_client::registry::Registry;

use crate::component::{self, Loop, PlainLoggingFlags, ServingFlags, identity};
use crate::exit::Outcome;
use crate::go_flags::boolean;

/// The loop that must not stop.
const TURNING: Loop = Loop {
    name: "loop",
    // A turn writes to a spoke that may be slow; it is well within this.
    longest_turn: Duration::from_mins(3),
    ready: "spoke",
};
/// As Kubernetes' own controllers have them.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// How a server runs.
#[derive(Args)]
pub(super) struct ServerFlags {
    /// How often everything is looked at, whether anything happened or not
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    resync: GoDuration,

    /// Decide and tell everything, write nothing
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

    /// Act only while leading; the Lease is in the namespace of the addon
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = boolean,
        help_heading = "Leader election"
    )]
    enable_leader_election: bool,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    logging: PlainLoggingFlags,
}

impl ServerFlags {
    /// Runs `serve` in a runtime of its own until it ends.
    pub(super) fn run(&self, serve: impl Future<Output = Result<()>>) -> Result<Outcome> {
        if self.resync.0.is_zero() {
            return Err(crate::cli::usage_error("--resync must be longer than 0s"));
        }
        self.logging.start();
        component::run(serve)?;
        Ok(Outcome::Success)
    }

    /// Serves the numbers, `pages` and the health checks while the controller runs.
    pub(super) async fn during<F: Future<Output = ()>>(
        &self,
        registry: Registry,
        pages: Router,
        controller: impl FnOnce(Pulse, ReadyHandle) -> F,
    ) -> Result<()> {
        let served = self.serving.open(registry, pages, &TURNING).await?;
        served.during(controller).await;
        Ok(())
    }

    /// `lease`: where the leader is elected, if it is.
    pub(super) fn options(&self, addon: AddonRef, lease: &str) -> Options {
        let election = self.enable_leader_election.then(|| election(&addon, lease));
        Options {
            addon,
            part: Part::new(election, self.dry_run),
            identity: identity(),
            resync: self.resync.0,
            dry_run: self.dry_run,
        }
    }
}

/// Where the leader is elected.
pub(super) fn election(addon: &AddonRef, lease: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: addon.namespace.clone(),
        name: lease.to_owned(),
        identity: identity(),
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
    }
}
