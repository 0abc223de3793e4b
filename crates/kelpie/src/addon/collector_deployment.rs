//! Flags for the deployment of collectors.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{OperatorOptions, Placement, PrometheusRef};
use kelpie_config::GoDuration;
use serde_json::Value;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Collectors")]
pub(crate) struct CollectorDeploymentFlags {
    /// Container image of the collectors
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = concat!("kelpie:", env!("CARGO_PKG_VERSION"))
    )]
    collector_image: String,

    /// Service account of the collectors
    #[arg(long, value_name = "NAME", default_value = "kelpie-addon-collector")]
    collector_service_account: String,

    /// Service of the platform's Prometheus, as NAMESPACE/NAME
    #[arg(
        long,
        value_name = "SERVICE",
        default_value = "openshift-monitoring/prometheus-k8s"
    )]
    platform_service: String,

    /// URL of the platform's Prometheus
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://prometheus-k8s.openshift-monitoring.svc:9091"
    )]
    platform_url: String,

    /// StatefulSet of the Prometheus for user workloads, as NAMESPACE/NAME
    #[arg(
        long,
        value_name = "STATEFULSET",
        default_value = "openshift-user-workload-monitoring/prometheus-user-workload"
    )]
    uwl_stateful_set: String,

    /// URL of the Prometheus for user workloads
    #[arg(
        long,
        value_name = "URL",
        default_value = concat!(
        "https://prometheus-user-workload.openshift-user-workload-monitoring.svc",
        ":9092"
        )
    )]
    uwl_url: String,

    /// URL that evaluates recording rules on OpenShift
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://thanos-querier.openshift-monitoring.svc:9091"
    )]
    query_url: String,

    /// Schedule collectors on nodes with this label; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    collector_node_selector: Vec<(String, String)>,

    /// Tolerate a taint, as in a Pod: {"key": …, "operator": …}; can be repeated
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    collector_toleration: Vec<Value>,

    /// Pull the image of collectors with this Secret; can be repeated
    #[arg(long, value_name = "NAME")]
    collector_pull_secret: Vec<String>,

    /// Time that a collector may have no ready pod; two intervals if that is longer
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    ready_within: GoDuration,

    /// Write no status conditions, for the hub's own cluster
    #[arg(long)]
    no_status: bool,
}

impl CollectorDeploymentFlags {
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
            query_url: self.query_url.clone(),
            placement: Placement {
                node_selector: self.collector_node_selector.iter().cloned().collect(),
                tolerations: self.collector_toleration.clone(),
                pull_secrets: self.collector_pull_secret.clone(),
            },
            ready_within: self.ready_within.0,
            no_status: self.no_status,
        })
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parse_object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("expected a JSON object: {error}")),
    }
}

fn source(flag: &str, object: &str, url: &str) -> Result<PrometheusRef> {
    match object.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(PrometheusRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            url: url.to_owned(),
        }),
        _ => {
            let text = format!("{flag} is {object:?}: expected NAMESPACE/NAME");
            Err(crate::cli::usage_error(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct DeploymentTestCli {
        #[command(flatten)]
        flags: CollectorDeploymentFlags,
    }

    #[test]
    fn defaults_match_the_rbac_files() {
        let cli = DeploymentTestCli::parse_from(["kelpie"]);
        let options = cli.flags.options().unwrap();
        assert_eq!(options, OperatorOptions::default());
    }
    #[test]
    fn flags_become_options() {
        let flags = [
            "--no-status",
            "--ready-within=1s",
            "--collector-image=i",
            "--collector-node-selector=a=b",
            r#"--collector-toleration={"key":"infra"}"#,
            "--collector-pull-secret=s",
        ];
        let cli = DeploymentTestCli::parse_from([&["kelpie"][..], &flags].concat());
        let expected = OperatorOptions {
            no_status: true,
            ready_within: std::time::Duration::from_secs(1),
            image: "i".into(),
            placement: Placement {
                node_selector: [("a".into(), "b".into())].into(),
                tolerations: vec![serde_json::json!({ "key": "infra" })],
                pull_secrets: vec!["s".into()],
            },
            ..OperatorOptions::default()
        };
        assert_eq!(cli.flags.options().unwrap(), expected);
    }
}
