//! The machines of the seed, by the cluster each belongs to.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_core::{MachinePhase, Machines};
use kelpie_kube::seed::MachineFacts;

/// What a watch has told of the machines so far. As a [`kelpie_core::Mirror`], but dense: there are
/// thousands, and most of them never change.
#[derive(Debug, Default)]
pub(super) struct MachineBook {
    /// By namespace.
    herds: BTreeMap<String, Herd>,
    is_listing: bool,
    was_complete: bool,
}

/// The machines of one cluster.
#[derive(Debug, Default)]
struct Herd {
    /// Sorted by name.
    machines: Vec<Machine>,
    /// The same as a probe gets them; made when asked for.
    shown: Option<Arc<Machines>>,
}

#[derive(Debug)]
struct Machine {
    /// `None`: as its node is called, which is so on most clouds.
    own_name: Option<Box<str>>,
    node: Option<Arc<str>>,
    phase: MachinePhase,
    /// The list that is coming in, or the last one, named it; or it came after.
    is_named: bool,
}

impl MachineBook {
    /// Whether there ever was a complete list.
    pub(super) fn is_known(&self) -> bool {
        self.was_complete
    }

    /// A new list begins.
    pub(super) fn begin_list(&mut self) {
        self.is_listing = true;
        let machines = self.herds.values_mut().flat_map(|herd| &mut herd.machines);
        machines.for_each(|machine| machine.is_named = false);
    }

    /// The list is complete; gives the namespaces from which machines are gone.
    pub(super) fn end_list(&mut self) -> Vec<String> {
        self.was_complete = true;
        if !std::mem::take(&mut self.is_listing) {
            return Vec::new();
        }
        let lessened = self.herds.iter_mut().filter_map(|(namespace, herd)| {
            let before = herd.machines.len();
            herd.machines.retain(|machine| machine.is_named);
            (herd.machines.len() < before).then(|| {
                herd.shown = None;
                namespace.clone()
            })
        });
        let lessened = lessened.collect();
        self.herds.retain(|_, herd| !herd.machines.is_empty());
        lessened
    }

    /// Takes a machine over; true if anything that is used of it is new.
    pub(super) fn put(&mut self, facts: MachineFacts) -> bool {
        let MachineFacts {
            namespace,
            name,
            node,
            phase,
        } = facts;
        let herd = self.herds.entry(namespace).or_default();
        match herd.place(&name) {
            Ok(index) => {
                let machine = &mut herd.machines[index];
                machine.is_named = true;
                // The text that is there stays: it is the one that is shared.
                if machine.node == node && machine.phase == phase {
                    return false;
                }
                *machine = Machine::new(name, node, phase);
            }
            Err(index) => herd.machines.insert(index, Machine::new(name, node, phase)),
        }
        herd.shown = None;
        true
    }

    /// The machine is gone.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Some(herd) = self.herds.get_mut(namespace) else {
            return;
        };
        if let Ok(index) = herd.place(name) {
            herd.machines.remove(index);
            herd.shown = None;
        }
        if herd.machines.is_empty() {
            self.herds.remove(namespace);
        }
    }

    /// The machines of a cluster: the same part until they change.
    pub(super) fn of(&mut self, namespace: &str) -> Arc<Machines> {
        if !self.herds.contains_key(namespace) {
            self.herds.insert(namespace.to_owned(), Herd::default());
        }
        let shown = self.herds.get_mut(namespace).map(Herd::show);
        shown.unwrap_or_default()
    }
}

impl Machine {
    /// As a list or a watch has just named it.
    fn new(name: String, node: Option<Arc<str>>, phase: MachinePhase) -> Self {
        Self {
            own_name: (node.as_deref() != Some(&*name)).then(|| name.into()),
            node,
            phase,
            is_named: true,
        }
    }

    fn name(&self) -> &str {
        let name = self.own_name.as_deref().or(self.node.as_deref());
        name.unwrap_or_default()
    }
}

impl Herd {
    /// Where the machine of this name is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        let machines = &self.machines;
        machines.binary_search_by(|machine| machine.name().cmp(name))
    }

    fn show(&mut self) -> Arc<Machines> {
        // Room for more would be kept for every cluster.
        self.machines.shrink_to_fit();
        let machines = self.machines.iter();
        let on_nodes = machines.filter_map(|machine| Some((machine.node.clone()?, machine.phase)));
        let shown = self
            .shown
            .get_or_insert_with(|| Arc::new(on_nodes.collect()));
        Arc::clone(shown)
    }
}
