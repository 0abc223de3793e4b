//! The `kelpie addon status` command.

use anyhow::Result;
use clap::Args;
use kelpie_addon::StatusController;
use prometheus_client::registry::Registry;

use super::hub::HubFlags;
use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::ExitStatus;
use crate::signals;

/// The Lease for leader election.
pub(super) const LEASE: &str = "kelpie-addon-status";

/// Aggregate the components' conditions, and replicate the status to the hub
///
/// Watches one ObservabilityAddon. When a component's condition changes, it sets exactly one of
/// the standard conditions to True: Available, Degraded, Disabled, NotSupported or Progressing.
/// The whole status is copied to the addon of the same name on the hub, in the namespace of this
/// cluster. The spoke never waits for the hub; after an outage the hub gets the newest state.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct StatusCommand {
    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    hub: HubFlags,

    #[command(flatten)]
    server: ServerFlags,
}

impl StatusCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let spoke = self.spoke.connect("status").await?;
        let hub = self.hub.options("status");
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = StatusController::new(spoke, options, hub, &mut registry);
        let pages = controller.routes();
        let run = |heartbeat, ready| controller.run(shutdown, heartbeat, ready);
        self.server.during(registry, pages, run).await
    }
}
