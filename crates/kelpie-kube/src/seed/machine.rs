//! Machines, where there are any.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use kelpie_core::MachinePhase;
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

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
    pub node: Option<Arc<str>>,
    /// Its phase.
    pub phase: MachinePhase,
}

/// One change of the set of machines, or of there being any.
#[derive(Debug, Clone)]
pub enum MachineChange {
    /// This API server knows no machines, and has not for a minute if it once did: the rule about them
    /// is off, and none are left. It is said once; the search for them goes on.
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
            node: node.filter(|node| !node.is_empty()).map(Arc::from),
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
    watch(client, selection).flat_map(move |change| stream::iter(kind.note(change, Instant::now())))
}

/// A kind that was there is gone once it was not found for so long: while an API server starts, or
/// loads its definitions anew, it denies kinds that it has.
const PROOF: Duration = Duration::from_mins(1);

/// Whether there is such a thing as a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Absent,
    Present {
        /// Since when it is not found, if that is so.
        denied: Option<Instant>,
    },
}

impl Kind {
    fn note(
        &mut self,
        change: Change<MachineFacts>,
        now: Instant,
    ) -> impl Iterator<Item = MachineChange> + use<> {
        let before = *self;
        let is_denied = matches!(change, Change::Failed(WatchError::Absent { .. }));
        *self = match (&change, before) {
            (_, Self::Present { denied }) if is_denied => match denied.unwrap_or(now) {
                since if now >= since + PROOF => Self::Absent,
                since => Self::Present {
                    denied: Some(since),
                },
            },
            _ if is_denied => Self::Absent,
            // Whether it is there is not known by that.
            (Change::Failed(_), _) => before,
            _ => Self::Present { denied: None },
        };
        let turned = match (before, *self) {
            (Self::Unknown | Self::Present { .. }, Self::Absent) => Some(MachineChange::KindAbsent),
            (Self::Unknown | Self::Absent, Self::Present { .. }) => {
                Some(MachineChange::KindPresent)
            }
            _ => None,
        };
        // Where there are none, that is no failure.
        let is_failure = !is_denied || *self != Self::Absent;
        let passed_on = is_failure.then_some(MachineChange::Machine(change));
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

    fn absent() -> Change<MachineFacts> {
        let what = "machines".into();
        Change::Failed(WatchError::Absent { what })
    }

    fn broken() -> Change<MachineFacts> {
        let what = "machines".into();
        Change::Failed(WatchError::Expired { what })
    }

    /// What is told when these changes come at these seconds.
    fn told(changes: impl IntoIterator<Item = (u64, Change<MachineFacts>)>) -> Vec<&'static str> {
        let (mut kind, start) = (Kind::Unknown, Instant::now());
        let tell = |change: MachineChange| match change {
            MachineChange::KindAbsent => "absent",
            MachineChange::KindPresent => "present",
            MachineChange::Machine(Change::Failed(_)) => "failed",
            MachineChange::Machine(_) => "listed",
        };
        let mut note = |(at, change)| kind.note(change, start + Duration::from_secs(at));
        let told = changes.into_iter().flat_map(&mut note);
        told.map(tell).collect()
    }

    #[test]
    fn the_kind_is_told_once_each_time_it_turns() {
        let changes = [
            (0, absent()),
            (1, absent()),
            (2, broken()),
            (3, Change::Restarted),
            (4, Change::Synced),
            (5, broken()),
            (6, absent()),
            (66, absent()),
            (67, absent()),
        ];
        let expected = [
            "absent", "failed", "present", "listed", "listed", "failed", "failed", "absent",
        ];
        assert_eq!(told(changes), expected);
    }

    #[test]
    fn a_kind_that_is_not_found_for_less_than_a_minute_stays() {
        let changes = [
            (0, Change::Restarted),
            (1, absent()),
            (50, absent()),
            (55, Change::Restarted),
            (60, absent()),
            (70, broken()),
            (119, absent()),
        ];
        let expected = [
            "present", "listed", "failed", "failed", "listed", "failed", "failed", "failed",
        ];
        assert_eq!(told(changes), expected);
    }
}
