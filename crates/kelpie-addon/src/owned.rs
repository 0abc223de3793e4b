//! The objects that the operator owns, and how they are recognized.

use kelpie_core::addon::AddonComponent;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use serde_json::Value;

/// The Deployment of a collector.
pub(crate) const DEPLOYMENT: ObjectKind =
    ObjectKind::new("apps", "v1", "Deployment", "deployments");
/// The Service in front of a collector's own metrics.
pub(crate) const SERVICE: ObjectKind = ObjectKind::new("", "v1", "Service", "services");
/// Has those metrics scraped, if the Prometheus operator is installed.
pub(crate) const SERVICE_MONITOR: ObjectKind = ObjectKind::new(
    "monitoring.coreos.com",
    "v1",
    "ServiceMonitor",
    "servicemonitors",
);
/// The alerts on a collector, if the Prometheus operator is installed.
pub(crate) const PROMETHEUS_RULE: ObjectKind = ObjectKind::new(
    "monitoring.coreos.com",
    "v1",
    "PrometheusRule",
    "prometheusrules",
);

/// All owned kinds. The Deployment is last, so that everything it needs exists first.
pub(crate) const OWNED_KINDS: [ObjectKind; 4] =
    [SERVICE, SERVICE_MONITOR, PROMETHEUS_RULE, DEPLOYMENT];

/// The field manager of server-side apply.
pub(crate) const FIELD_MANAGER: &str = "kelpie-addon-operator";
/// The field manager that sets the replicas of a disabled collector. It owns nothing else, and
/// loses that to [`FIELD_MANAGER`] when the collector is enabled again.
pub(crate) const STOP_MANAGER: &str = "kelpie-addon-operator-stop";
/// The label that all objects of the operator have.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Returns the name of a collector's objects.
pub(crate) const fn object_name(component: AddonComponent) -> &'static str {
    match component {
        AddonComponent::Platform => "metrics-collector",
        AddonComponent::Uwl => "uwl-metrics-collector",
    }
}

/// Reads an object of the operator. One of the same name without its label is not the operator's
/// and counts as missing.
pub(crate) async fn read_owned(
    objects: &ObjectClient,
    kind: ObjectKind,
    namespace: &str,
    component: AddonComponent,
) -> Result<Option<Value>, ObjectError> {
    let path = kind.named(namespace, object_name(component));
    let found = objects.get(&path).await?;
    Ok(found.filter(|object| object["metadata"]["labels"][MANAGED_BY] == FIELD_MANAGER))
}

/// Returns true if the addon with this UID owns the object.
pub(crate) fn is_owned_by(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == uid)
}
