//! machine-controller-manager: replaces the machines of nodes that are lost.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::json;

use super::node::{NodeReadiness, SimNode};
use crate::field;
use crate::resource::GroupResource;
use crate::store::{DeleteOptions, ObjectStore, WriteScope};

/// The Machines of machine-controller-manager in the seed.
pub(crate) const MACHINES: GroupResource =
    GroupResource::from_static("machine.sapcloud.io", "machines");

/// The time after which the machine of a node that is not Ready is replaced.
const HEALTH_TIMEOUT: Duration = Duration::from_mins(10);

/// The time that a machine takes to join as a node.
const BOOT_TIME: Duration = Duration::from_mins(3);

/// A machine whose node has not joined after this time is deleted and created anew.
const CREATION_TIMEOUT: Duration = Duration::from_mins(20);

/// The machine controller of a cluster.
#[derive(Debug)]
pub(crate) struct MachineController {
    pub(crate) is_running: bool,
    /// The number of machines created so far, from which nodes are named.
    machines_created: usize,
    /// The replacement that has not joined yet. There is one at a time.
    pending: Option<PendingMachine>,
}

#[derive(Debug)]
struct PendingMachine {
    name: Arc<str>,
    number: usize,
    started: Time,
}

/// The result of a tick.
#[derive(Debug)]
pub(crate) enum MachineAction {
    /// The machine of the node at this index is being replaced.
    Replace(usize),
    /// A node joins: its name and number.
    Join(Arc<str>, usize),
}

impl MachineController {
    pub(crate) fn new(machines_created: usize) -> Self {
        Self {
            is_running: true,
            machines_created,
            pending: None,
        }
    }

    /// Checks every node. A pending machine boots even while the controller is stopped. `can_join`
    /// returns whether a node with this number reaches its API server.
    pub(crate) fn tick(
        &mut self,
        (seed, cluster): (&ObjectStore, &str),
        nodes: &[SimNode],
        now: Time,
        can_join: impl Fn(usize) -> bool,
    ) -> Option<MachineAction> {
        if let Some(new) = self.pending.take() {
            if now >= new.started.after(BOOT_TIME) && can_join(new.number) {
                set_phase(seed, cluster, &new.name, "Running");
                return Some(MachineAction::Join(new.name, new.number));
            }
            if self.is_running && now >= new.started.after(CREATION_TIMEOUT) {
                delete_machine(seed, cluster, &new.name);
                self.start_machine(seed, cluster, new.number, now);
            } else {
                self.pending = Some(new);
            }
            return None;
        }
        if !self.is_running {
            return None;
        }
        let is_lost = |node: &SimNode| match node.readiness {
            NodeReadiness::Ready => false,
            NodeReadiness::Unknown(since) => now >= since.after(HEALTH_TIMEOUT),
        };
        let index = nodes.iter().position(is_lost)?;
        let node = nodes.get(index)?;
        delete_machine(seed, cluster, &node.name);
        self.start_machine(seed, cluster, node.number, now);
        Some(MachineAction::Replace(index))
    }

    fn start_machine(&mut self, seed: &ObjectStore, cluster: &str, number: usize, now: Time) {
        let name: Arc<str> = node_name(self.machines_created).into();
        self.machines_created += 1;
        create_machine(seed, cluster, &name, "Pending");
        self.pending = Some(PendingMachine {
            name,
            number,
            started: now,
        });
    }
}

/// Returns the name of the node on the `number`th machine.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Creates the Machine of a node.
pub(crate) fn create_machine(seed: &ObjectStore, cluster: &str, node: &str, phase: &str) {
    let machine = json!({
        "metadata": { "name": format!("machine-{node}"), "labels": { "node": node } },
        "spec": { "class": { "kind": "MachineClass", "name": "pool" } },
        "status": { "currentStatus": { "phase": phase } },
    });
    // An existing Machine is kept, and gets the phase below.
    let _ = seed.create(&MACHINES, cluster, machine);
    set_phase(seed, cluster, node, phase);
}

fn set_phase(seed: &ObjectStore, cluster: &str, node: &str, phase: &str) {
    let name = format!("machine-{node}");
    let _ = seed.modify(&MACHINES, cluster, &name, WriteScope::Status, |machine| {
        field::set(machine, "/status/currentStatus/phase", phase);
    });
}

fn delete_machine(seed: &ObjectStore, cluster: &str, node: &str) {
    let (name, options) = (format!("machine-{node}"), DeleteOptions::immediate());
    let _ = seed.delete(&MACHINES, cluster, &name, &options);
}
