//! The Machine resource of Cluster API.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use kelpie_core::WatchCache;
use kelpie_core::prober::MachinePhase;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::FieldPath;
use kelpie_kube::watch::{OptionalEvent, WatchEvent, WatchedResource};
use serde_json::Value;

use super::CLUSTER_LABEL;
use crate::source::{ClusterMachine, namespaced_id};

/// A Machine, in the namespace of its Cluster.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    namespace: String,
    machine: ClusterMachine,
}

const fn version(version: &'static str) -> ObjectKind {
    ObjectKind::new("cluster.x-k8s.io", version, "Machine", "machines")
}

impl WatchedResource for Machine {
    const KIND: ObjectKind = version("v1beta2");
    const OLDER: &'static [ObjectKind] = &[version("v1beta1")];
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "deletionTimestamp"],
        &["metadata", "labels", CLUSTER_LABEL],
        &["status", "nodeRef", "name"],
        &["status", "phase"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let cluster = metadata["labels"][CLUSTER_LABEL].as_str();
        let node = status["nodeRef"]["name"].as_str();
        // Cluster API drains the node of a deleted Machine, and then stops it, at any time.
        let is_deleted = !metadata["deletionTimestamp"].is_null();
        Self {
            namespace: namespace.to_owned(),
            machine: ClusterMachine {
                cluster: namespaced_id::id(namespace, cluster.unwrap_or_default()),
                name: name.to_owned(),
                node: node.filter(|node| !node.is_empty()).map(Arc::from),
                phase: match status["phase"].as_str() {
                    Some("Failed") => MachinePhase::Failed,
                    Some("Deleting" | "Deleted") => MachinePhase::Terminating,
                    _ if is_deleted => MachinePhase::Terminating,
                    _ => MachinePhase::Alive,
                },
            },
        }
    }
}

/// Adds the cluster to deletions, which tell only the namespace and the name of a Machine.
pub(super) fn by_cluster(
    events: impl Stream<Item = OptionalEvent<Machine>> + Send + 'static,
) -> impl Stream<Item = OptionalEvent<ClusterMachine>> + Send {
    let mut owners = MachineOwners::default();
    events.flat_map(move |event| {
        stream::iter(match event {
            OptionalEvent::KindAbsent => Some(OptionalEvent::KindAbsent),
            OptionalEvent::KindPresent => Some(OptionalEvent::KindPresent),
            OptionalEvent::Watch(event) => owners.track(event).map(OptionalEvent::Watch),
        })
    })
}

/// The cluster of each Machine, by the namespace and the name of the Machine.
#[derive(Default)]
struct MachineOwners(WatchCache<(String, String), String>);

impl MachineOwners {
    fn track(&mut self, event: WatchEvent<Machine>) -> Option<WatchEvent<ClusterMachine>> {
        let Self(owners) = self;
        Some(match event {
            WatchEvent::Init => {
                owners.begin_list();
                WatchEvent::Init
            }
            WatchEvent::Apply(Machine { namespace, machine }) => {
                let key = (namespace, machine.name.clone());
                owners.put(key, machine.cluster.clone());
                WatchEvent::Apply(machine)
            }
            WatchEvent::Delete { namespace, name } => WatchEvent::Delete {
                namespace: owners.remove(&(namespace, name.clone()))?,
                name,
            },
            WatchEvent::InitDone => {
                owners.end_list();
                WatchEvent::InitDone
            }
            WatchEvent::Error(error) => WatchEvent::Error(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, cluster: &str, status: &Value) -> Machine {
        let metadata = json!({ "labels": { CLUSTER_LABEL: cluster } });
        let object = json!({ "metadata": metadata, "status": status });
        Machine::read("ns", name, &object)
    }

    #[test]
    fn deleting_and_failed_machines_are_not_alive() {
        for (phase, expected) in [
            (json!("Failed"), MachinePhase::Failed),
            (json!("Deleting"), MachinePhase::Terminating),
            (json!("Deleted"), MachinePhase::Terminating),
            (json!("Running"), MachinePhase::Alive),
            (json!("Provisioning"), MachinePhase::Alive),
            (json!("Unknown"), MachinePhase::Alive),
            (json!(null), MachinePhase::Alive),
        ] {
            let found = machine("m", "a", &json!({ "phase": phase })).machine;
            assert_eq!(found.phase, expected, "{phase}");
        }
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-11-01T00:00:00Z" } });
        let deleted = Machine::read("ns", "m", &deleted).machine;
        assert_eq!(deleted.phase, MachinePhase::Terminating);
    }

    #[test]
    fn machine_belongs_to_cluster_and_node() {
        let found = machine("m", "a", &json!({ "nodeRef": { "name": "n" } })).machine;
        assert_eq!(
            (&*found.cluster, found.node.as_deref()),
            ("ns/a", Some("n"))
        );
        assert_eq!(machine("m", "a", &json!({})).machine.node, None);
    }

    #[test]
    fn deletion_names_the_cluster() {
        let mut owners = MachineOwners::default();
        let deleted = || WatchEvent::Delete {
            namespace: "ns".into(),
            name: "m".into(),
        };
        assert!(owners.track(deleted()).is_none(), "never seen");
        owners.track(WatchEvent::Init);
        owners.track(WatchEvent::Apply(machine("m", "a", &json!({}))));
        owners.track(WatchEvent::InitDone);
        let event = owners.track(deleted());
        assert!(
            matches!(&event, Some(WatchEvent::Delete { namespace, name })
                if namespace == "ns/a" && name == "m"),
            "{event:?}"
        );
        assert!(owners.track(deleted()).is_none(), "it is gone");
    }
}
