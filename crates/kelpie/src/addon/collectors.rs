//! How collectors are deployed.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{OperatorOptions, Source};
use kelpie_config::GoDuration;

/// How collectors are deployed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Collectors")]
pub(crate) struct CollectorFlags {
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

impl CollectorFlags {
    pub(crate) fn options(&self) -> Result<OperatorOptions> {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Nothing {
        #[command(flatten)]
        flags: CollectorFlags,
    }

    #[test]
    fn the_defaults_are_those_that_the_rbac_files_are_made_for() {
        let nothing = Nothing::parse_from(["kelpie"]);
        let options = nothing.flags.options().unwrap();
        assert_eq!(options, OperatorOptions::default());
    }
}
