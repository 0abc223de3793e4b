//! Resource names: API group and plural.
#![expect(missing_docs, reason = "constants are named after their resources")]

use std::borrow::Cow;
use std::fmt;

/// An API group and a plural, such as `deployments` in `apps`. Stores keep objects by resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    group: Cow<'static, str>,
    plural: Cow<'static, str>,
}

pub const PODS: GroupResource = GroupResource::from_static("", "pods");
pub const NODES: GroupResource = GroupResource::from_static("", "nodes");
pub const NAMESPACES: GroupResource = GroupResource::from_static("", "namespaces");
pub const SECRETS: GroupResource = GroupResource::from_static("", "secrets");
pub const CONFIG_MAPS: GroupResource = GroupResource::from_static("", "configmaps");
pub const SERVICES: GroupResource = GroupResource::from_static("", "services");
/// Events of the core group. `events.k8s.io` serves the same objects.
pub const EVENTS: GroupResource = GroupResource::from_static("", "events");
pub const ENDPOINT_SLICES: GroupResource =
    GroupResource::from_static("discovery.k8s.io", "endpointslices");
pub const LEASES: GroupResource = GroupResource::from_static("coordination.k8s.io", "leases");
pub const DEPLOYMENTS: GroupResource = GroupResource::from_static("apps", "deployments");
pub const REPLICA_SETS: GroupResource = GroupResource::from_static("apps", "replicasets");
pub const STATEFUL_SETS: GroupResource = GroupResource::from_static("apps", "statefulsets");
/// The MachineHealthChecks of Cluster API, which a CRD defines.
pub const HEALTH_CHECKS: GroupResource =
    GroupResource::from_static("cluster.x-k8s.io", "machinehealthchecks");
pub const POLICIES: GroupResource = GroupResource::from_static(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
);
pub const POLICY_BINDINGS: GroupResource = GroupResource::from_static(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);
/// CRDs. Creating one makes its resource available.
pub const DEFINITIONS: GroupResource =
    GroupResource::from_static("apiextensions.k8s.io", "customresourcedefinitions");

impl GroupResource {
    /// Creates a resource name from constants. The core group is the empty string.
    pub const fn from_static(group: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            plural: Cow::Borrowed(plural),
        }
    }

    /// Creates a resource name at run time. The core group is the empty string.
    pub fn new(group: &str, plural: &str) -> Self {
        Self {
            group: Cow::Owned(group.to_owned()),
            plural: Cow::Owned(plural.to_owned()),
        }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the plural, such as `deployments`.
    pub fn plural(&self) -> &str {
        &self.plural
    }
}

/// Formats as in the API server's messages: `pods`, `deployments.apps`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}
