//! What the operator makes, and how it is told from what others made.

use kelpie_kube::objects::Kind;

/// Workloads.
pub(crate) const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");

/// Everything that the operator made has this label.
pub(crate) const LABEL: &str = "app.kubernetes.io/managed-by=kelpie-addon-operator";
