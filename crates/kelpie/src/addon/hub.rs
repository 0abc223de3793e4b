//! Flags for the hub.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use kelpie_addon::HubOptions;

use super::spoke::user_agent;

/// Flags for the hub, and for this cluster on the hub.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubFlags {
    /// Kubeconfig of the hub; it is read again after a failure
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "hub_namespace")]
    hub_kubeconfig: Option<PathBuf>,

    /// Namespace of this cluster on the hub: the cluster's name
    #[arg(long, value_name = "NAMESPACE", requires = "hub_kubeconfig")]
    hub_namespace: Option<String>,
}

impl HubFlags {
    /// Returns `None` without a hub. `command` becomes part of the `User-Agent` header.
    pub(crate) fn options(&self, command: &str) -> Option<HubOptions> {
        let hub = self.hub_kubeconfig.clone().zip(self.hub_namespace.clone());
        hub.map(|(kubeconfig, namespace)| HubOptions {
            kubeconfig,
            namespace,
            user_agent: user_agent(command),
        })
    }
}
