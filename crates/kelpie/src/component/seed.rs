//! How the seed is reached.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use kelpie_kube::seed::SeedOptions;

/// How the seed is reached.
#[derive(Args)]
#[command(next_help_heading = "Seed")]
pub(crate) struct SeedFlags {
    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Routine requests to the seed per second; fencing calls are never held back
    #[arg(long, value_name = "QPS", default_value_t = 5.0)]
    kube_api_qps: f32,

    /// Routine requests to the seed that may come at once
    #[arg(long, value_name = "N", default_value_t = 10)]
    kube_api_burst: u32,

    /// Accepted for dependency-watchdog's sake: every cluster has its own task
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    concurrent_reconciles: u32,
}

impl SeedFlags {
    pub(crate) fn options(&self, component: &str) -> SeedOptions {
        SeedOptions {
            kubeconfig: self.kubeconfig.clone(),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst,
            user_agent: format!("kelpie/{} ({component})", env!("CARGO_PKG_VERSION")),
        }
    }
}
