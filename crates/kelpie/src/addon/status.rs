//! `kelpie addon status`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_addon::{HubOptions, StatusController};
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::{SpokeFlags, user_agent};
use crate::exit::Outcome;

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

    /// The hub's kubeconfig; it is read again when it no longer works
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "hub_namespace",
        help_heading = "Hub"
    )]
    hub_kubeconfig: Option<PathBuf>,

    /// The namespace of this cluster on the hub: the cluster's name
    #[arg(
        long,
        value_name = "NAMESPACE",
        requires = "hub_kubeconfig",
        help_heading = "Hub"
    )]
    hub_namespace: Option<String>,

    #[command(flatten)]
    server: ServerFlags,
}

impl Status {
    pub(super) fn run(self) -> Result<Outcome> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let spoke = self.spoke.connect("status").await?;
        let hub = self.hub_kubeconfig.clone().zip(self.hub_namespace.clone());
        let hub = hub.map(|(kubeconfig, namespace)| HubOptions {
            kubeconfig,
            namespace,
            user_agent: user_agent("status"),
        });
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = StatusController::new(spoke, options, hub, &mut registry);
        let running = self.server.open(registry, controller.routes()).await?;
        controller
            .run(running.shutdown, running.pulse, running.ready)
            .await;
        running.over.cancel();
        Ok(())
    }
}
