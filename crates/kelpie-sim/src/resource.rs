//! Resources by their names.

use std::borrow::Cow;
use std::fmt;

/// An API group and a plural, such as `deployments` in `apps`: what objects are filed under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    group: Cow<'static, str>,
    plural: Cow<'static, str>,
}

/// Pods.
pub const PODS: Resource = Resource::known("", "pods");
/// Nodes.
pub const NODES: Resource = Resource::known("", "nodes");
/// Namespaces.
pub const NAMESPACES: Resource = Resource::known("", "namespaces");
/// Secrets.
pub const SECRETS: Resource = Resource::known("", "secrets");
/// Config maps.
pub const CONFIG_MAPS: Resource = Resource::known("", "configmaps");
/// Services.
pub const SERVICES: Resource = Resource::known("", "services");
/// Events, of both groups that serve them.
pub const EVENTS: Resource = Resource::known("", "events");
/// Endpoint slices.
pub const ENDPOINT_SLICES: Resource = Resource::known("discovery.k8s.io", "endpointslices");
/// Leases.
pub const LEASES: Resource = Resource::known("coordination.k8s.io", "leases");
/// Deployments.
pub const DEPLOYMENTS: Resource = Resource::known("apps", "deployments");
/// Replica sets.
pub const REPLICA_SETS: Resource = Resource::known("apps", "replicasets");
/// Stateful sets.
pub const STATEFUL_SETS: Resource = Resource::known("apps", "statefulsets");
/// Custom resource definitions: creating one makes its resource known.
pub const DEFINITIONS: Resource =
    Resource::known("apiextensions.k8s.io", "customresourcedefinitions");

impl Resource {
    /// One that is known when this is compiled; the core group is empty.
    pub const fn known(group: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            plural: Cow::Borrowed(plural),
        }
    }

    /// One that is only known at run time.
    pub fn new(group: &str, plural: &str) -> Self {
        Self {
            group: Cow::Owned(group.to_owned()),
            plural: Cow::Owned(plural.to_owned()),
        }
    }

    /// Its API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Its plural.
    pub fn plural(&self) -> &str {
        &self.plural
    }
}

/// As messages of API servers have it: `pods`, `deployments.apps`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}
