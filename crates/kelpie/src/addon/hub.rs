//! Flags for the hub.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use futures_util::FutureExt;
use kelpie_addon::HubOptions;
use kelpie_kube::client::{ClientOptions, ClusterClient};

use super::spoke::user_agent;

/// Enough for the replication, which makes two requests at a time.
const QPS: f32 = 20.0;
const BURST: u32 = 20;

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
        let options = ClientOptions {
            kubeconfig: Some(self.hub_kubeconfig.clone()?),
            qps: QPS,
            burst: BURST,
            user_agent: user_agent(command),
        };
        let connect = move || {
            let options = options.clone();
            async move { ClusterClient::connect_as("hub", &options).await }.boxed()
        };
        Some(HubOptions {
            namespace: self.hub_namespace.clone()?,
            connect: Arc::new(connect),
        })
    }
}
