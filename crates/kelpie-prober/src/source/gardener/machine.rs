//! The Machine resource of machine-controller-manager.

use std::sync::Arc;

use kelpie_core::prober::MachinePhase;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::FieldPath;
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use crate::source::ClusterMachine;

/// A Machine, in the control namespace of its cluster.
#[derive(Clone, Debug)]
pub(super) struct Machine(pub(super) ClusterMachine);

impl WatchedResource for Machine {
    const KIND: ObjectKind =
        ObjectKind::new("machine.sapcloud.io", "v1alpha1", "Machine", "machines");
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "labels", "node"],
        &["status", "currentStatus", "phase"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let node = object["metadata"]["labels"]["node"].as_str();
        Self(ClusterMachine {
            cluster: namespace.to_owned(),
            name: name.to_owned(),
            node: node.filter(|node| !node.is_empty()).map(Arc::from),
            // A deletionTimestamp alone does not count. The machine runs until
            // machine-controller-manager sets the phase, and its lease is as good as any other.
            phase: match object["status"]["currentStatus"]["phase"].as_str() {
                Some("Failed") => MachinePhase::Failed,
                Some("Terminating") => MachinePhase::Terminating,
                _ => MachinePhase::Alive,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: &Value) -> ClusterMachine {
        Machine::read("ns", "m", object).0
    }

    #[test]
    fn failed_and_terminating_are_not_alive() {
        for (phase, expected) in [
            (json!("Failed"), MachinePhase::Failed),
            (json!("Terminating"), MachinePhase::Terminating),
            (json!("Running"), MachinePhase::Alive),
            (json!("Unknown"), MachinePhase::Alive),
            (json!("CrashLoopBackOff"), MachinePhase::Alive),
            (json!(null), MachinePhase::Alive),
            (json!(7), MachinePhase::Alive),
        ] {
            let machine = json!({ "status": { "currentStatus": { "phase": phase } } });
            assert_eq!(read(&machine).phase, expected);
        }
    }

    #[test]
    fn deleted_machine_is_alive_until_its_phase_changes() {
        let machine = json!({ "metadata": { "deletionTimestamp": "2026-11-01T00:00:00Z" } });
        assert_eq!(read(&machine).phase, MachinePhase::Alive);
    }

    #[test]
    fn node_label_may_be_missing() {
        let node = |labels: Value| read(&json!({ "metadata": { "labels": labels } })).node;
        assert_eq!(node(json!({ "node": "n" })).as_deref(), Some("n"));
        assert_eq!(node(json!({ "node": "" })), None);
        assert_eq!(node(json!(null)), None);
    }
}
