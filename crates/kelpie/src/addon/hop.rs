//! The `kelpie addon hop` command.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_addon::{AddonRef, HubStatusController};
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::{NAME, NAMESPACE, connect};
use crate::exit::ExitStatus;
use crate::signals;

/// The Lease for leader election.
pub(super) const LEASE: &str = "kelpie-addon-hop";

/// On the hub: show every cluster's addon in its ManagedClusterAddOn
///
/// Watches the ObservabilityAddons of all clusters. For each it writes Degraded and Progressing,
/// with reason and message, to the ManagedClusterAddOn observability-controller in the same
/// namespace. Available is written only if its status.healthCheck.mode is Customized; otherwise
/// the hub itself writes it. Disabled and NotSupported are shown as Degraded.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct HopCommand {
    /// Kubeconfig of the hub [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Hub")]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE, help_heading = "Hub")]
    namespace: String,

    /// Name of the ObservabilityAddons; each cluster's namespace has one
    #[arg(long, value_name = "NAME", default_value = NAME, help_heading = "Hub")]
    name: String,

    #[command(flatten)]
    server: ServerFlags,
}

impl HopCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let hub = connect("hub", self.kubeconfig.clone(), "hop").await?;
        let mut registry = Registry::default();
        let addon = AddonRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        let options = self.server.options(addon, LEASE);
        let controller = HubStatusController::new(hub, options, &mut registry);
        let pages = controller.routes();
        let run = |heartbeat, ready| controller.run(shutdown, heartbeat, ready);
        self.server.during(registry, pages, run).await
    }
}
