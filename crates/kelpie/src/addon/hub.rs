//! Where the hub is.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use kelpie_addon::HubOptions;

use super::spoke::user_agent;

/// The hub, and this cluster on it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubFlags {
    /// The hub's kubeconfig; it is read again when it no longer works
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "hub_namespace"
    )]
    hub_kubeconfig: Option<PathBuf>,

    /// The namespace of this cluster on the hub: the cluster's name
    #[arg(long, value_name = "NAMESPACE", requires = "hub_kubeconfig")]
    hub_namespace: Option<String>,
}

impl HubFlags {
    /// `None`: there is no hub. `command`: how we introduce ourselves.
    pub(crate) fn options(&self, command: &str) -> Option<HubOptions> {
        let hub = self.hub_kubeconfig.clone().zip(self.hub_namespace.clone());
        hub.map(|(kubeconfig, namespace)| HubOptions {
            kubeconfig,
            namespace,
            user_agent: user_agent(command),
        })
    }
}
