//! `kelpie addon operator`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{Operator as Controller, OperatorOptions, Source};
use kelpie_config::GoDuration;
use prometheus_client::registry::Registry;

use super::server::ServerFlags;
use super::spoke::SpokeFlags;
use crate::exit::Outcome;

/// The Lease of the leader.
const LEASE: &str = "kelpie-addon-operator";

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

/// How collectors are deployed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Collectors")]
struct CollectorFlags {
    /// The image of a collector
    #[arg(long, value_name = "IMAGE", default_value = concat!("kelpie:", env!("CARGO_PKG_VERSION")))]
    collector_image: String,

    /// The service account that collectors run as
    #[arg(long, value_name = "NAME", default_value = "kelpie-addon-collector")]
    collector_service_account: String,

    /// The Service of the platform's Prometheus, as NAMESPACE/NAME
    #[arg(
        long,
        value_name = "SERVICE",
        default_value = "openshift-monitoring/prometheus-k8s"
    )]
    platform_service: String,

    /// Where the platform's Prometheus answers
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://prometheus-k8s.openshift-monitoring.svc:9091"
    )]
    platform_url: String,

    /// The StatefulSet of the Prometheus of user workloads, as NAMESPACE/NAME
    #[arg(
        long,
        value_name = "STATEFULSET",
        default_value = "openshift-user-workload-monitoring/prometheus-user-workload"
    )]
    uwl_stateful_set: String,

    /// Where the Prometheus of user workloads answers
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://prometheus-user-workload.openshift-user-workload-monitoring.svc:9092"
    )]
    uwl_url: String,

    /// How long a collector may have no ready pod; two intervals if that is longer
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    ready_within: GoDuration,

    /// Touch no condition, for the hub's own cluster
    #[arg(long)]
    no_status: bool,
}

impl Operator {
    pub(super) fn run(self) -> Result<Outcome> {
        let options = self.collectors.options()?;
        self.server.run(self.serve(options))
    }

    async fn serve(&self, operator: OperatorOptions) -> Result<()> {
        let spoke = self.spoke.connect("operator").await?;
        let mut registry = Registry::default();
        let options = self.server.options(self.spoke.addon(), LEASE);
        let controller = Controller::new(spoke, options, operator, &mut registry);
        let running = self.server.open(registry, controller.routes()).await?;
        controller
            .run(running.shutdown, running.pulse, running.ready)
            .await;
        running.over.cancel();
        Ok(())
    }
}

impl CollectorFlags {
    fn options(&self) -> Result<OperatorOptions> {
        Ok(OperatorOptions {
            image: self.collector_image.clone(),
            service_account: self.collector_service_account.clone(),
            platform: source(
                "--platform-service",
                &self.platform_service,
                &self.platform_url,
            )?,
            uwl: source("--uwl-stateful-set", &self.uwl_stateful_set, &self.uwl_url)?,
            ready_within: self.ready_within.0,
            no_status: self.no_status,
        })
    }
}

fn source(flag: &str, place: &str, url: &str) -> Result<Source> {
    match place.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Source {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            url: url.to_owned(),
        }),
        _ => {
            let wrong = format!("{flag} is {place:?}: write NAMESPACE/NAME");
            Err(crate::cli::usage_error(&wrong))
        }
    }
}
