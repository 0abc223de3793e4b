//! `kelpie addon hop`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_addon::{AddonRef, Hop as Controller};
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::{NAME, NAMESPACE, connect};
use crate::exit::Outcome;
use crate::signals;

/// The Lease of the leader.
pub(super) const LEASE: &str = "kelpie-addon-hop";

/// On the hub: show every cluster's addon in its ManagedClusterAddOn
///
/// Watches the ObservabilityAddons of all clusters and writes Degraded and Progressing, with
/// reason and message, to the ManagedClusterAddOn observability-controller beside each; Available
/// only where its status.healthCheck.mode is Customized, since otherwise the hub itself says that.
/// Disabled and NotSupported show as Degraded.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Hop {
    /// The hub's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Hub"
    )]
    kubeconfig: Option<PathBuf>,

    /// The namespace of the Lease
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = NAMESPACE,
        help_heading = "Hub"
    )]
    namespace: String,

    /// The name of the ObservabilityAddons, one in the namespace of each cluster
    #[arg(long, value_name = "NAME", default_value = NAME, help_heading = "Hub")]
    name: String,

    #[command(flatten)]
    server: ServerFlags,
}

impl Hop {
    pub(super) fn run(self) -> Result<Outcome> {
        self.server.run(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let hub = connect("hub", self.kubeconfig.clone(), "hop").await?;
        let mut registry = Registry::default();
        let addon = AddonRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        let options = self.server.options(addon, LEASE);
        let controller = Controller::new(hub, options, &mut registry);
        let pages = controller.routes();
        let run = |pulse, ready| controller.run(shutdown, pulse, ready);
        self.server.during(registry, pages, run).await
    }
}
