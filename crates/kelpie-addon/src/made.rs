//! What the operator makes, and how it is told from what others made.

use kelpie_kube::objects::Kind;
use serde_json::Value;

/// Workloads.
pub(crate) const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
/// Where a collector's own metrics are.
pub(crate) const SERVICE: Kind = Kind::new("", "v1", "Service", "services");
/// Who scrapes them, where there is the Prometheus operator.
pub(crate) const MONITOR: Kind = Kind::new(
    "monitoring.coreos.com",
    "v1",
    "ServiceMonitor",
    "servicemonitors",
);
/// What is alerted on, where there is the Prometheus operator.
pub(crate) const RULE: Kind = Kind::new(
    "monitoring.coreos.com",
    "v1",
    "PrometheusRule",
    "prometheusrules",
);

/// All of them; the Deployment last, so that what it needs is there first.
pub(crate) const MADE: [Kind; 4] = [SERVICE, MONITOR, RULE, DEPLOYMENT];

/// Who applies them.
pub(crate) const MANAGER: &str = "kelpie-addon-operator";
/// Everything that the operator made has this label.
pub(crate) const LABEL: &str = "app.kubernetes.io/managed-by=kelpie-addon-operator";

/// Whether an addon of this uid owns the object.
pub(crate) fn is_owned_by(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == uid)
}
