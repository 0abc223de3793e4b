//! machine-controller-manager: replaces the machines of nodes that do not come back.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use serde_json::json;

use super::node::{Health, Node};
use crate::field;
use crate::resource::Resource;
use crate::store::{Deletion, Part, Store};

/// Machines in the seed.
pub(crate) const MACHINES: Resource = Resource::known("machine.sapcloud.io", "machines");

/// A machine whose node has not joined by then is given up, and made anew.
const CREATION: Duration = Duration::from_mins(20);

/// The machine controller of a cluster.
#[derive(Debug)]
pub(crate) struct MachineController {
    /// A machine whose node is not ready for so long is replaced.
    timeout: Duration,
    /// A machine takes so long to become a node.
    boot: Duration,
    is_running: bool,
    /// Names of nodes are counted on.
    made: usize,
    /// The replacement that has not joined yet: one at a time.
    under_way: Option<Replacement>,
}

#[derive(Debug)]
struct Replacement {
    name: Arc<str>,
    number: usize,
    zone: usize,
    begun: Time,
}

/// What became of a look.
#[derive(Debug)]
pub(crate) enum Deed {
    /// The machine of the node at this place in the list is given up.
    Replace(usize),
    /// A node joins: its name, number and zone.
    Join(Arc<str>, usize, usize),
}

impl MachineController {
    pub(crate) fn new(timeout: Duration, boot: Duration, made: usize) -> Self {
        Self {
            timeout,
            boot,
            is_running: true,
            made,
            under_way: None,
        }
    }

    pub(crate) fn run(&mut self, is_running: bool) {
        self.is_running = is_running;
    }

    /// Looks at every node. A machine boots also while nobody looks after it; `reaches` says whether a
    /// node of this number and zone would reach its API server.
    pub(crate) fn tick(
        &mut self,
        (seed, cluster): (&Store, &str),
        nodes: &[Node],
        now: Time,
        reaches: impl Fn(usize, usize) -> bool,
    ) -> Option<Deed> {
        if let Some(new) = self.under_way.take() {
            if now >= new.begun.after(self.boot) && reaches(new.number, new.zone) {
                set_phase(seed, cluster, &new.name, "Running");
                return Some(Deed::Join(new.name, new.number, new.zone));
            }
            if self.is_running && now >= new.begun.after(CREATION) {
                remove(seed, cluster, &new.name);
                self.begin(seed, cluster, (new.number, new.zone), now);
            } else {
                self.under_way = Some(new);
            }
            return None;
        }
        if !self.is_running {
            return None;
        }
        let is_lost = |node: &Node| match node.health {
            Health::Ready => false,
            Health::Unknown(since) => now >= since.after(self.timeout),
        };
        let index = nodes.iter().position(is_lost)?;
        let node = nodes.get(index)?;
        remove(seed, cluster, &node.name);
        self.begin(seed, cluster, (node.number, node.zone), now);
        Some(Deed::Replace(index))
    }

    fn begin(&mut self, seed: &Store, cluster: &str, (number, zone): (usize, usize), now: Time) {
        let name: Arc<str> = node_name(self.made).into();
        self.made += 1;
        create(seed, cluster, &name, "Pending");
        self.under_way = Some(Replacement {
            name,
            number,
            zone,
            begun: now,
        });
    }
}

/// The name of the node that was made as number `made`.
pub(crate) fn node_name(made: usize) -> String {
    format!("node-{made:04}")
}

/// Makes the Machine of a node.
pub(crate) fn create(seed: &Store, cluster: &str, node: &str, phase: &str) {
    let machine = json!({
        "metadata": { "name": format!("machine-{node}"), "labels": { "node": node } },
        "spec": { "class": { "kind": "MachineClass", "name": "pool" } },
        "status": { "currentStatus": { "phase": phase } },
    });
    // It is there already, or the seed is; either way nobody waits for it.
    let _ = seed.create(&MACHINES, cluster, machine);
    set_phase(seed, cluster, node, phase);
}

fn set_phase(seed: &Store, cluster: &str, node: &str, phase: &str) {
    let name = format!("machine-{node}");
    let _ = seed.modify(&MACHINES, cluster, &name, Part::Status, |machine| {
        field::set(machine, "/status/currentStatus/phase", phase);
    });
}

fn remove(seed: &Store, cluster: &str, node: &str) {
    let _ = seed.delete(
        &MACHINES,
        cluster,
        &format!("machine-{node}"),
        &Deletion::now(),
    );
}
