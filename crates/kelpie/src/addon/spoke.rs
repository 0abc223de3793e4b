//! Which addon, and how its cluster is reached.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use kelpie_addon::AddonRef;
use kelpie_kube::seed::{Seed, SeedOptions};
use tokio::runtime::{self, Runtime};

/// Enough for every command that is no server: they make a handful of requests.
const QPS: f32 = 50.0;
const BURST: u32 = 100;

/// Where the addon is, and what it is called, if nobody says so.
pub(super) const NAMESPACE: &str = "open-cluster-management-addon-observability";
pub(super) const NAME: &str = "observability-addon";

/// The spoke, and the addon on it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Spoke")]
pub(crate) struct SpokeFlags {
    /// The spoke's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// The namespace of the ObservabilityAddon
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// The name of the ObservabilityAddon
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

    /// `command`: how we introduce ourselves.
    pub(crate) async fn connect(&self, command: &str) -> Result<Seed> {
        connect("spoke", self.kubeconfig.clone(), command).await
    }
}

/// `role`: what the cluster is to us; `command`: how we introduce ourselves.
pub(super) async fn connect(
    role: &'static str,
    kubeconfig: Option<PathBuf>,
    command: &str,
) -> Result<Seed> {
    let options = SeedOptions {
        kubeconfig,
        qps: QPS,
        burst: BURST,
        user_agent: user_agent(command),
    };
    Ok(Seed::connect_as(role, &options).await?)
}

pub(super) fn user_agent(command: &str) -> String {
    format!("kelpie/{} (addon {command})", env!("CARGO_PKG_VERSION"))
}

/// For a command that asks and answers.
pub(super) fn runtime() -> Result<Runtime> {
    kelpie_net::install_crypto();
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}
