//! Machines, where there are any.

use futures_util::{Stream, StreamExt, stream};
use kelpie_core::MachinePhase;
use kube::Client;
use serde_json::Value;

use super::sieve::Keep;
use super::watch::{Change, Selection, WatchError, Watched, watch};

/// What is used of a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// The control namespace of its cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node it became (label `node`); `None` before it joined.
    pub node: Option<String>,
    /// Its phase.
    pub phase: MachinePhase,
}

/// One change of the set of machines, or of there being any.
#[derive(Debug, Clone)]
pub enum MachineChange {
    /// This API server knows no machines: the rule about them is off, and none are left. It is said
    /// once; the search for them goes on.
    KindAbsent,
    /// It knows machines; a list follows.
    KindPresent,
    /// A change of a machine.
    Machine(Change<MachineFacts>),
}

const PAGE: u32 = 500;

impl Watched for MachineFacts {
    const GROUP: &'static str = "machine.sapcloud.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "Machine";
    const PLURAL: &'static str = "machines";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[
                ("name", Keep::All),
                ("namespace", Keep::All),
                ("resourceVersion", Keep::All),
                ("labels", Keep::Fields(&[("node", Keep::All)])),
            ]),
        ),
        (
            "status",
            Keep::Fields(&[("currentStatus", Keep::Fields(&[("phase", Keep::All)]))]),
        ),
    ]);

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let node = object["metadata"]["labels"]["node"].as_str();
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: node.filter(|node| !node.is_empty()).map(str::to_owned),
            // A deletionTimestamp alone does not count: until machine-controller-manager has set the
            // phase the machine runs, and its lease tells as much as any other.
            phase: match object["status"]["currentStatus"]["phase"].as_str() {
                Some("Failed") => MachinePhase::Failed,
                Some("Terminating") => MachinePhase::Terminating,
                _ => MachinePhase::Alive,
            },
        }
    }
}

pub(super) fn watch_machines(
    client: &Client,
    namespace: Option<&str>,
) -> impl Stream<Item = MachineChange> + Send + use<> {
    let selection = Selection {
        namespace,
        ..Selection::all(PAGE)
    };
    let mut kind = Kind::Unknown;
    watch(client, selection).flat_map(move |change| stream::iter(kind.note(change)))
}

/// Whether there is such a thing as a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Absent,
    Present,
}

impl Kind {
    fn note(
        &mut self,
        change: Change<MachineFacts>,
    ) -> impl Iterator<Item = MachineChange> + use<> {
        let before = *self;
        let mut passed_on = None;
        match change {
            Change::Failed(WatchError::Absent { .. }) => *self = Self::Absent,
            change => {
                if !matches!(change, Change::Failed(_)) {
                    *self = Self::Present;
                }
                passed_on = Some(MachineChange::Machine(change));
            }
        }
        let turned = match self {
            Self::Absent if before != Self::Absent => Some(MachineChange::KindAbsent),
            Self::Present if before != Self::Present => Some(MachineChange::KindPresent),
            _ => None,
        };
        turned.into_iter().chain(passed_on)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_failed_and_terminating_machines_are_not_alive() {
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
            assert_eq!(MachineFacts::read("ns", "m", &machine).phase, expected);
        }
    }

    #[test]
    fn a_machine_that_is_deleted_runs_until_its_phase_says_otherwise() {
        let machine = json!({ "metadata": { "deletionTimestamp": "2026-11-01T00:00:00Z" } });
        let machine = MachineFacts::read("ns", "m", &machine);
        assert_eq!(machine.phase, MachinePhase::Alive);
    }

    #[test]
    fn the_node_is_a_label_that_may_be_missing() {
        let node = |labels: Value| {
            let machine = json!({ "metadata": { "labels": labels } });
            MachineFacts::read("ns", "m", &machine).node
        };
        assert_eq!(node(json!({ "node": "n" })).as_deref(), Some("n"));
        assert_eq!(node(json!({ "node": "" })), None);
        assert_eq!(node(json!(null)), None);
    }

    #[test]
    fn the_kind_is_told_once_each_time_it_turns() {
        let absent = || {
            Change::Failed(WatchError::Absent {
                what: "machines".into(),
            })
        };
        let broken = || {
            Change::Failed(WatchError::Expired {
                what: "machines".into(),
            })
        };
        let changes = [
            absent(),
            absent(),
            broken(),
            Change::Restarted,
            Change::Synced,
            broken(),
            absent(),
        ];
        let mut kind = Kind::Unknown;
        let tell = |change: MachineChange| match change {
            MachineChange::KindAbsent => "absent",
            MachineChange::KindPresent => "present",
            MachineChange::Machine(Change::Failed(_)) => "failed",
            MachineChange::Machine(_) => "listed",
        };
        let told = changes.into_iter().flat_map(|change| kind.note(change));
        let told: Vec<&str> = told.map(tell).collect();
        let expected = [
            "absent", "failed", "present", "listed", "listed", "failed", "absent",
        ];
        assert_eq!(told, expected);
    }
}
