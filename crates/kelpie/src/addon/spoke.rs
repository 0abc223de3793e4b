//! Flags for the spoke, and the client for it.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_addon::AddonRef;
use kelpie_kube::client::{ClientOptions, ClusterClient};

/// The client's rate limit. The commands make a handful of requests each.
const QPS: f32 = 50.0;
const BURST: u32 = 100;

/// The default namespace and name of the addon.
pub(super) const NAMESPACE: &str = "open-cluster-management-addon-observability";
pub(super) const NAME: &str = "observability-addon";

/// Flags for the spoke, and for the addon on the spoke.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Spoke")]
pub(crate) struct SpokeFlags {
    /// Kubeconfig of the spoke [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the ObservabilityAddon
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// Name of the ObservabilityAddon
    #[arg(long, value_name = "NAME", default_value = NAME)]
    name: String,
}

impl SpokeFlags {
    pub(crate) fn addon(&self) -> AddonRef {
        AddonRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Connects to the spoke. `command` becomes part of the `User-Agent` header.
    pub(crate) async fn connect(&self, command: &str) -> Result<ClusterClient> {
        connect("spoke", self.kubeconfig.clone(), command).await
    }
}

/// Connects to a cluster. `role` names it in errors; `command` becomes part of the `User-Agent`
/// header.
pub(super) async fn connect(
    role: &'static str,
    kubeconfig: Option<PathBuf>,
    command: &str,
) -> Result<ClusterClient> {
    let options = ClientOptions {
        kubeconfig,
        qps: QPS,
        burst: BURST,
        user_agent: user_agent(command),
    };
    Ok(ClusterClient::connect_as(role, &options).await?)
}

pub(super) fn user_agent(command: &str) -> String {
    format!("kelpie/{} (addon {command})", env!("CARGO_PKG_VERSION"))
}
