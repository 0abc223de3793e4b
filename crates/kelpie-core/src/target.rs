//! The controllers a fence stops, and how.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// One controller to fence: any resource with a scale subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which object, in the cluster's control namespace.
    pub resource: ResourceRef,
    /// Its absence is fine.
    pub optional: bool,
    /// How it is restored.
    pub up: ScaleRule,
    /// How it is fenced.
    pub down: ScaleRule,
}

impl Target {
    /// Whether it is the one that the deadline is about: kube-controller-manager takes nodes for dead. The
    /// others do harm only minutes after it has.
    pub fn races(&self) -> bool {
        self.resource.name == "kube-controller-manager"
    }
}

/// A reference to an object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// How a target is scaled in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleRule {
    /// Levels run in ascending order, the targets of one level together.
    pub level: u32,
    /// Slept before the write, only when there is something to write.
    pub initial_delay: Duration,
    /// Bound for the writes of one scale operation.
    pub timeout: Duration,
    /// Replaces the count otherwise scaled to: none on the way down, the recorded one on the way up.
    pub replicas: Option<u32>,
}

impl Default for ScaleRule {
    fn default() -> Self {
        Self {
            level: 0,
            initial_delay: Duration::ZERO,
            timeout: Duration::from_secs(30),
            replicas: None,
        }
    }
}
