//! The Machines of a cluster in the seed, and what may replace them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::field;
use crate::landscape::Platform;
use crate::resource::{GroupResource, HEALTH_CHECKS};
use crate::store::{DeleteOptions, ObjectStore, WriteScope};

/// The Machines of machine-controller-manager.
pub(crate) const MACHINES: GroupResource =
    GroupResource::from_static("machine.sapcloud.io", "machines");
/// The Machines of Cluster API.
pub(crate) const CAPI_MACHINES: GroupResource =
    GroupResource::from_static("cluster.x-k8s.io", "machines");

/// The label with the name of a cluster of Cluster API.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Pauses the controllers of an object of Cluster API, whatever its value.
const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

/// The Machines of a cluster in the seed, as its platform keeps them.
#[derive(Clone, Debug)]
pub(crate) struct MachineObjects {
    platform: Platform,
    namespace: &'static str,
    cluster: Arc<str>,
}

impl MachineObjects {
    pub(crate) fn new(platform: Platform, cluster: Arc<str>) -> Self {
        Self {
            platform,
            namespace: platform.shared_namespace().unwrap_or_default(),
            cluster,
        }
    }

    /// Creates what replaces the machines. In Cluster API that is a MachineHealthCheck; a second
    /// one is paused by its owner.
    pub(crate) fn create_health_checks(&self, seed: &ObjectStore) {
        if self.platform != Platform::ClusterApi {
            return;
        }
        let paused = json!({ PAUSED_ANNOTATION: "true" });
        for (name, annotations) in [("workers", json!({})), ("trial", paused)] {
            let check = json!({
                "metadata": {
                    "name": format!("{}-{name}", self.cluster),
                    "labels": { CLUSTER_LABEL: &*self.cluster },
                    "annotations": annotations,
                },
                "spec": { "clusterName": &*self.cluster, "selector": {} },
            });
            let _ = seed.create(&HEALTH_CHECKS, self.namespace, check);
        }
    }

    /// Returns the time after which the machine of a node that is not Ready is replaced: those of
    /// machine-controller-manager, and of Cluster API's quick start.
    pub(crate) fn health_timeout(&self) -> Duration {
        match self.platform {
            Platform::Gardener => Duration::from_mins(10),
            Platform::ClusterApi => Duration::from_mins(5),
        }
    }

    /// Returns the pause of what replaces the machines; `None` if it is not paused, or cannot be.
    pub(crate) fn pause(&self, seed: &ObjectStore) -> Option<String> {
        if self.platform != Platform::ClusterApi {
            return None;
        }
        let name = format!("{}-workers", self.cluster);
        let check = seed.get(&HEALTH_CHECKS, self.namespace, &name).ok()?;
        let pause = check["metadata"]["annotations"][PAUSED_ANNOTATION].as_str()?;
        Some(pause.to_owned())
    }

    /// Creates the Machine of a node.
    pub(crate) fn create(&self, seed: &ObjectStore, node: &str, phase: &str) {
        let name = self.name(node);
        let machine = match self.platform {
            Platform::Gardener => json!({
                "metadata": { "name": name, "labels": { "node": node } },
                "spec": { "class": { "kind": "MachineClass", "name": "pool" } },
                "status": { "currentStatus": { "phase": phase } },
            }),
            Platform::ClusterApi => json!({
                "metadata": { "name": name, "labels": { CLUSTER_LABEL: &*self.cluster } },
                "spec": { "clusterName": &*self.cluster },
                "status": { "nodeRef": { "name": node } },
            }),
        };
        // An existing Machine is kept, and gets the phase below.
        let _ = seed.create(&self.resource(), self.namespace(), machine);
        self.set_phase(seed, node, phase);
    }

    pub(crate) fn set_phase(&self, seed: &ObjectStore, node: &str, phase: &str) {
        let change = |machine: &mut Value| match self.platform {
            Platform::Gardener => field::set(machine, "/status/currentStatus/phase", phase),
            Platform::ClusterApi => {
                field::set(machine, "/status/phase", phase);
                field::set(machine, "/status/nodeRef/name", node);
            }
        };
        let (resource, name) = (self.resource(), self.name(node));
        let _ = seed.modify(
            &resource,
            self.namespace(),
            &name,
            WriteScope::Status,
            change,
        );
    }

    pub(crate) fn delete(&self, seed: &ObjectStore, node: &str) {
        let options = DeleteOptions::immediate();
        let _ = seed.delete(
            &self.resource(),
            self.namespace(),
            &self.name(node),
            &options,
        );
    }

    fn resource(&self) -> GroupResource {
        match self.platform {
            Platform::Gardener => MACHINES,
            Platform::ClusterApi => CAPI_MACHINES,
        }
    }

    fn namespace(&self) -> &str {
        match self.platform {
            Platform::Gardener => &self.cluster,
            Platform::ClusterApi => self.namespace,
        }
    }

    fn name(&self, node: &str) -> String {
        match self.platform {
            Platform::Gardener => format!("machine-{node}"),
            Platform::ClusterApi => format!("{}-{node}", self.cluster),
        }
    }
}
