//! The `kelpie addon operator` command.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{AddonOperator, OperatorOptions};
use prometheus_client::registry::Registry;

use super::collector_deployment::CollectorDeploymentFlags;
use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::ExitStatus;
use crate::signals;

/// The Lease for leader election.
pub(super) const LEASE: &str = "kelpie-addon-operator";

/// Deploy the collectors, and report the result in the addon's status
///
/// Watches one ObservabilityAddon and the inputs of its collectors: the Secret hub-info-secret,
/// the allowlist ConfigMaps, the TLS Secrets, the platform's Prometheus and the one for user
/// workloads. For each collector it applies a Deployment, a Service, a ServiceMonitor and a
/// PrometheusRule, and deletes them together with the addon. It works while the hub is down.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct OperatorCommand {
    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    collectors: CollectorDeploymentFlags,

    #[command(flatten)]
    server: ServerFlags,
}

impl OperatorCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        let options = self.collectors.options()?;
        self.server.run(self.serve(options))
    }

    async fn serve(&self, operator: OperatorOptions) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let spoke = self.spoke.connect("operator").await?;
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = AddonOperator::new(spoke, options, operator, &mut registry);
        let pages = controller.routes();
        let run = |heartbeat, ready| controller.run(shutdown, heartbeat, ready);
        self.server.during(registry, pages, run).await
    }
}
