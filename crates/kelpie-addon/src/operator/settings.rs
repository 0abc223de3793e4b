//! What the command line says about the collectors.

use std::time::Duration;

/// How collectors are deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOptions {
    /// The image of a collector: the one that this program comes in.
    pub image: String,
    /// The service account that collectors run as.
    pub service_account: String,
    /// The platform's Prometheus.
    pub platform: Source,
    /// That of user workloads.
    pub uwl: Source,
    /// A collector that has no ready pod for so long, or for two intervals, has failed.
    pub ready_within: Duration,
    /// Touch no condition: for the hub's own cluster, whose status nobody reads.
    pub no_status: bool,
}

/// Where metrics come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its namespace.
    pub namespace: String,
    /// The Service of the platform's Prometheus, or the `StatefulSet` of that of user workloads.
    pub name: String,
    /// Where it answers.
    pub url: String,
}

/// As it is on OpenShift.
impl Default for OperatorOptions {
    fn default() -> Self {
        let source = |namespace: &str, name: &str, port: u16| Source {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            url: format!("https://{name}.{namespace}.svc:{port}"),
        };
        let uwl = "openshift-user-workload-monitoring";
        Self {
            image: concat!("kelpie:", env!("CARGO_PKG_VERSION")).to_owned(),
            service_account: "kelpie-addon-collector".to_owned(),
            platform: source("openshift-monitoring", "prometheus-k8s", 9091),
            uwl: source(uwl, "prometheus-user-workload", 9092),
            ready_within: Duration::from_mins(10),
            no_status: false,
        }
    }
}
