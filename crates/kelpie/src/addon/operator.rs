//! `kelpie addon operator`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{Operator as Controller, OperatorOptions};
use prometheus_client::registry::Registry;

use super::collectors::CollectorFlags;
use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::Outcome;
use crate::signals;

/// The Lease of the leader.
pub(super) const LEASE: &str = "kelpie-addon-operator";

/// Deploy the collectors, and say in the addon's status how that went
///
/// Watches one ObservabilityAddon and what its collectors are made from: the Secret
/// hub-info-secret, the allowlist ConfigMaps, the TLS Secrets, the platform's Prometheus and that
/// of user workloads. Deployment, Service, ServiceMonitor and PrometheusRule of each collector are
/// applied, and deleted when the addon is. It works while the hub is down.
///
/// The metrics address also serves /debug/state; the health address serves /livez and /readyz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Operator {
    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    collectors: CollectorFlags,

    #[command(flatten)]
    server: ServerFlags,
}

impl Operator {
    pub(super) fn run(self) -> Result<Outcome> {
        let options = self.collectors.options()?;
        self.server.run(self.serve(options))
    }

    async fn serve(&self, operator: OperatorOptions) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let spoke = self.spoke.connect("operator").await?;
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = Controller::new(spoke, options, operator, &mut registry);
        let pages = controller.routes();
        let run = |pulse, ready| controller.run(shutdown, pulse, ready);
        self.server.during(registry, pages, run).await
    }
}
