//! `kelpie addon hop`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::Hop as Controller;
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::Outcome;
use crate::signals;

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
        let shutdown = signals::shutdown()?;
        let hub = self.hub.connect_as("hub", "hop").await?;
        let mut registry = Registry::default();
        let options = self.server.options(self.hub.addon(), LEASE);
        let controller = Controller::new(hub, options, &mut registry);
        let pages = controller.routes();
        let run = |pulse, ready| controller.run(shutdown, pulse, ready);
        self.server.during(registry, pages, run).await
    }
}
