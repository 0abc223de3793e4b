//! `kelpie addon status`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::StatusController;
use prometheus_client::registry::Registry;

use super::hub::HubFlags;
use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::Outcome;
use crate::signals;

/// The Lease of the leader.
pub(super) const LEASE: &str = "kelpie-addon-status";

/// Aggregate the components' conditions, and replicate the status to the hub
///
/// Watches one ObservabilityAddon. Whenever a component's condition changes, exactly one of the
/// standard conditions becomes True: Available, Degraded, Disabled, NotSupported or Progressing.
/// The whole status goes to the addon of the same name on the hub, in the namespace of this
/// cluster. The spoke never waits for the hub; after an outage the hub gets the newest state.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Status {
    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    hub: HubFlags,

    #[command(flatten)]
    server: ServerFlags,
}

impl Status {
    pub(super) fn run(self) -> Result<Outcome> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let spoke = self.spoke.connect("status").await?;
        let hub = self.hub.options("status");
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = StatusController::new(spoke, options, hub, &mut registry);
        let pages = controller.routes();
        let run = |pulse, ready| controller.run(shutdown, pulse, ready);
        self.server.during(registry, pages, run).await
    }
}
