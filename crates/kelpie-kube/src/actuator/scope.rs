//! The place of a cluster's targets.

use std::sync::Arc;

use kelpie_core::prober::Target;
use kelpie_core::prober::fence::TargetObject;

/// The place of a cluster's targets in the seed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetScope {
    /// The namespace of the targets.
    pub namespace: Arc<str>,
    /// The name of the cluster; empty for targets that belong to the namespace as a whole.
    pub cluster: Arc<str>,
}

/// A target that a watch has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTarget {
    /// The place of the target.
    pub scope: TargetScope,
    /// The target as its actuator describes it.
    pub object: TargetObject,
}

impl TargetScope {
    /// Returns the place of targets that belong to the namespace as a whole.
    pub fn of_namespace(namespace: &str) -> Self {
        Self::of_cluster(namespace, "")
    }

    /// Returns the place of targets that belong to one cluster of the namespace.
    pub fn of_cluster(namespace: &str, cluster: &str) -> Self {
        Self {
            namespace: namespace.into(),
            cluster: cluster.into(),
        }
    }

    /// Returns the place by which this cluster's object of a target is found.
    #[must_use]
    pub fn of_target(&self, target: &Target) -> Self {
        if target.actuator.is_by_cluster() {
            self.clone()
        } else {
            Self {
                namespace: Arc::clone(&self.namespace),
                cluster: Arc::default(),
            }
        }
    }
}
