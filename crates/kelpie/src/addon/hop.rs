//! `kelpie addon hop`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::Hop as Controller;
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::Outcome;

/// The Lease of the leader.
pub(super) const LEASE: &str = "kelpie-addon-hop";

/// On the hub: show every cluster's addon in its ManagedClusterAddOn
///
/// Watches the ObservabilityAddons of all clusters and writes Degraded and Progressing, with
/// reason and message, to the ManagedClusterAddOn observability-controller beside each; Available
/// only where its status.healthCheck.mode is Customized, since otherwise the hub itself says that.
/// Disabled and NotSupported show as Degraded. --kubeconfig is the hub's here, and --namespace
/// only that of the Lease.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Hop {
    #[command(flatten)]
    hub: SpokeFlags,

    #[command(flatten)]
    server: ServerFlags,
}

impl Hop {
    pub(super) fn run(self) -> Result<Outcome> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let hub = self.hub.connect_as("hub", "hop").await?;
        let mut registry = Registry::default();
        let options = self.server.options(self.hub.addon(), LEASE);
        let controller = Controller::new(hub, options, &mut registry);
        let running = self.server.open(registry, controller.routes()).await?;
        controller
            .run(running.shutdown, running.pulse, running.ready)
            .await;
        running.over.cancel();
        Ok(())
    }
}
