//! Options of the operator.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// Options for the deployment of collectors. The defaults fit OpenShift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOptions {
    /// The container image of the collectors, usually the one of this program.
    pub image: String,
    /// The service account of the collectors.
    pub service_account: String,
    /// The Prometheus of the platform.
    pub platform: PrometheusRef,
    /// The Prometheus for user workloads.
    pub uwl: PrometheusRef,
    /// The URL that evaluates recording rules on OpenShift: that of its Thanos querier.
    pub query_url: String,
    /// The placement of the collectors' pods.
    pub placement: Placement,
    /// A collector has failed after this time without a ready pod, or after two intervals if that
    /// is longer.
    pub ready_within: Duration,
    /// Write no conditions. Meant for the hub's own cluster, whose status is not used.
    pub no_status: bool,
}

/// The placement of pods, and the Secrets to pull their images with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations, as in a Pod.
    pub tolerations: Vec<Value>,
    /// The names of the Secrets for the registry.
    pub pull_secrets: Vec<String>,
}

/// A Prometheus to collect from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusRef {
    /// The namespace of the object below.
    pub namespace: String,
    /// The Service of the platform's Prometheus, or the `StatefulSet` of the one for user
    /// workloads. The Prometheus exists if this object does.
    pub name: String,
    /// The base URL of its API.
    pub url: String,
}

impl Default for OperatorOptions {
    fn default() -> Self {
        let prometheus = |namespace: &str, name: &str, port: u16| PrometheusRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            url: format!("https://{name}.{namespace}.svc:{port}"),
        };
        let uwl = "openshift-user-workload-monitoring";
        Self {
            image: concat!("kelpie:", env!("CARGO_PKG_VERSION")).to_owned(),
            service_account: "kelpie-addon-collector".to_owned(),
            platform: prometheus("openshift-monitoring", "prometheus-k8s", 9091),
            uwl: prometheus(uwl, "prometheus-user-workload", 9092),
            query_url: "https://thanos-querier.openshift-monitoring.svc:9091".to_owned(),
            placement: Placement::default(),
            ready_within: Duration::from_mins(10),
            no_status: false,
        }
    }
}
