//! machine-controller-manager, or the MachineHealthCheck and the MachineSet of Cluster API:
//! replaces the machines of nodes that are lost.

use std::sync::Arc;
use std::time::Duration;

use super::machine_objects::MachineObjects;
use super::node::{NodeReadiness, SimNode};
use crate::store::ObjectStore;
use kelpie_core::Time;

/// The time that a machine takes to join as a node.
const BOOT_TIME: Duration = Duration::from_mins(3);

/// A machine whose node has not joined after this time is deleted and created anew.
const CREATION_TIMEOUT: Duration = Duration::from_mins(20);

/// The machine controller of a cluster.
#[derive(Debug)]
pub(crate) struct MachineController {
    pub(crate) objects: MachineObjects,
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
    pub(crate) fn new(objects: MachineObjects, machines_created: usize) -> Self {
        Self {
            objects,
            is_running: true,
            machines_created,
            pending: None,
        }
    }

    /// Checks every node. A pending machine boots even while the controller is stopped. `can_join`
    /// returns whether a node with this number reaches its API server.
    pub(crate) fn tick(
        &mut self,
        seed: &ObjectStore,
        nodes: &[SimNode],
        now: Time,
        can_join: impl Fn(usize) -> bool,
    ) -> Option<MachineAction> {
        if let Some(new) = self.pending.take() {
            if now >= new.started.after(BOOT_TIME) && can_join(new.number) {
                self.objects.set_phase(seed, &new.name, "Running");
                return Some(MachineAction::Join(new.name, new.number));
            }
            if self.is_running && now >= new.started.after(CREATION_TIMEOUT) {
                self.objects.delete(seed, &new.name);
                self.start_machine(seed, new.number, now);
            } else {
                self.pending = Some(new);
            }
            return None;
        }
        if !self.is_running || self.objects.pause(seed).is_some() {
            return None;
        }
        let timeout = self.objects.health_timeout();
        let is_lost = |node: &SimNode| match node.readiness {
            NodeReadiness::Ready => false,
            NodeReadiness::Unknown(since) => now >= since.after(timeout),
        };
        let index = nodes.iter().position(is_lost)?;
        let node = nodes.get(index)?;
        self.objects.delete(seed, &node.name);
        self.start_machine(seed, node.number, now);
        Some(MachineAction::Replace(index))
    }

    fn start_machine(&mut self, seed: &ObjectStore, number: usize, now: Time) {
        let name: Arc<str> = node_name(self.machines_created).into();
        self.machines_created += 1;
        self.objects.create(seed, &name, "Pending");
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
