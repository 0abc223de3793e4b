//! Flags of the connection to the seed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use kelpie_kube::client::ClientOptions;

#[derive(Args)]
#[command(next_help_heading = "Seed")]
pub(crate) struct SeedFlags {
    /// Kubeconfig of the seed [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Routine requests to the seed per second; -1 for no limit, 0 for the default. Fences, and
    /// deletions after a recovery, are never limited
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 5.0,
        allow_negative_numbers = true
    )]
    kube_api_qps: f32,

    /// Routine requests to the seed that may be sent at once; 0 for the default
    #[arg(long, value_name = "N", default_value_t = 10)]
    kube_api_burst: u32,

    /// Ignored; accepted for compatibility with dependency-watchdog. Every cluster has its own task
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    concurrent_reconciles: u32,
}

impl SeedFlags {
    pub(crate) fn options(&self, component: &str) -> ClientOptions {
        ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst,
            user_agent: format!("kelpie/{} ({component})", env!("CARGO_PKG_VERSION")),
        }
    }
}
