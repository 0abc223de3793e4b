//! The machines of the seed, grouped by cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_core::prober::{MachinePhase, Machines};

use crate::source::ClusterMachine;

/// The machines as their watch reported them.
///
/// Works like [`kelpie_core::WatchCache`], but is compact: there are thousands of machines, and
/// most of them never change.
#[derive(Debug, Default)]
pub(super) struct MachineStore {
    by_cluster: BTreeMap<String, ClusterMachines>,
    /// True once a list was complete.
    was_listed: bool,
}

/// The machines of one cluster.
#[derive(Debug, Default)]
struct ClusterMachines {
    /// Sorted by name.
    machines: Vec<StoredMachine>,
    /// The machines in the form that a probe uses, built on demand.
    snapshot: Option<Arc<Machines>>,
}

#[derive(Debug)]
struct StoredMachine {
    /// `None` if the machine has the name of its node, as on most clouds.
    own_name: Option<Box<str>>,
    node: Option<Arc<str>>,
    phase: MachinePhase,
    /// True if the current list, or the last one, contains the machine, or if it came after.
    is_listed: bool,
}

impl MachineStore {
    pub(super) fn has_synced(&self) -> bool {
        self.was_listed
    }

    pub(super) fn begin_list(&mut self) {
        let clusters = self.by_cluster.values_mut();
        for machine in clusters.flat_map(|cluster| &mut cluster.machines) {
            machine.is_listed = false;
        }
    }

    /// Ends the list and removes the machines that it does not contain. Returns the clusters that
    /// lost machines.
    pub(super) fn end_list(&mut self) -> Vec<String> {
        self.was_listed = true;
        let mut shrunk = Vec::new();
        self.by_cluster.retain(|name, cluster| {
            let before = cluster.machines.len();
            cluster.machines.retain(|machine| machine.is_listed);
            if cluster.machines.len() < before {
                cluster.snapshot = None;
                shrunk.push(name.clone());
            }
            !cluster.machines.is_empty()
        });
        shrunk
    }

    /// Adds or updates a machine. Returns true if a field that is used has changed.
    pub(super) fn put(&mut self, machine: ClusterMachine) -> bool {
        let cluster = self.by_cluster.entry(machine.cluster.clone()).or_default();
        match cluster.position(&machine.name) {
            Ok(index) => {
                let stored = &mut cluster.machines[index];
                stored.is_listed = true;
                // The stored node name stays: snapshots share it.
                if stored.node == machine.node && stored.phase == machine.phase {
                    return false;
                }
                *stored = machine.into();
            }
            Err(index) => cluster.machines.insert(index, machine.into()),
        }
        cluster.snapshot = None;
        true
    }

    pub(super) fn remove(&mut self, cluster_name: &str, name: &str) {
        let Some(cluster) = self.by_cluster.get_mut(cluster_name) else {
            return;
        };
        if let Ok(index) = cluster.position(name) {
            cluster.machines.remove(index);
            cluster.snapshot = None;
        }
        if cluster.machines.is_empty() {
            self.by_cluster.remove(cluster_name);
        }
    }

    /// Returns the machines of a cluster. The pointer stays the same until they change.
    pub(super) fn of(&mut self, cluster: &str) -> Arc<Machines> {
        let cluster = self.by_cluster.entry(cluster.to_owned()).or_default();
        cluster.snapshot()
    }
}

impl From<ClusterMachine> for StoredMachine {
    fn from(machine: ClusterMachine) -> Self {
        let ClusterMachine { name, node, .. } = machine;
        Self {
            own_name: (node.as_deref() != Some(&*name)).then(|| name.into()),
            node,
            phase: machine.phase,
            is_listed: true,
        }
    }
}

impl StoredMachine {
    fn name(&self) -> &str {
        let name = self.own_name.as_deref().or(self.node.as_deref());
        name.unwrap_or_default()
    }
}

impl ClusterMachines {
    /// Returns the index of the machine, or as an error the index at which to insert it.
    fn position(&self, name: &str) -> Result<usize, usize> {
        let machines = &self.machines;
        machines.binary_search_by(|machine| machine.name().cmp(name))
    }

    fn snapshot(&mut self) -> Arc<Machines> {
        // Spare capacity would add up over all clusters.
        self.machines.shrink_to_fit();
        let machines = self.machines.iter();
        let on_nodes = machines.filter_map(|machine| Some((machine.node.clone()?, machine.phase)));
        let snapshot = self
            .snapshot
            .get_or_insert_with(|| Arc::new(on_nodes.collect()));
        Arc::clone(snapshot)
    }
}
