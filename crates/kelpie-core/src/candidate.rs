//! Which nodes' leases prove something, and why the others do not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::Time;

/// Conditions that take a node out of the count when its worker pool names none of its own.
pub const DEFAULT_UNHEALTHY_CONDITIONS: [&str; 4] = [
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "DiskPressure",
    "NetworkUnavailable",
];

const IN_PLACE_UPDATE: &str = "InPlaceUpdate";
const IN_PLACE_UPDATE_REASONS: [&str; 2] = ["ReadyForUpdate", "UpdateFailed"];

/// What is used of a Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, which is also its lease's.
    pub name: String,
    /// When the API server created it.
    pub created: Time,
    /// Its worker pool (label `worker.gardener.cloud/pool`).
    pub pool: Option<String>,
    /// It carries the annotation `node.machine.sapcloud.io/not-managed-by-mcm`.
    pub unmanaged: bool,
    /// Its conditions, or those of them that may count.
    pub conditions: Vec<Condition>,
}

/// What is used of a node's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Such as `DiskPressure`.
    pub kind: String,
    /// Its status is `True`.
    pub is_true: bool,
    /// Its reason.
    pub reason: String,
}

impl Condition {
    /// It, if it can take a node out of the count, whatever its worker pool names; a reason that
    /// nobody reads is left out.
    pub fn that_may_count(mut self) -> Option<Self> {
        let is_update = self.kind == IN_PLACE_UPDATE;
        if !is_update {
            self.reason = String::new();
        }
        (self.is_true || is_update).then_some(self)
    }
}

/// What is used of a Machine's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachinePhase {
    /// Neither failed nor terminating.
    Alive,
    /// `Terminating`.
    Terminating,
    /// `Failed`.
    Failed,
}

/// The machines of a cluster by the node each belongs to, sorted. Names are shared between whoever
/// keeps the machines, the nodes and the leases: there are many, and they are held for every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines(Box<[(Arc<str>, MachinePhase)]>);

impl Machines {
    /// The node's name as it is shared, and its machine's phase.
    fn of(&self, node: &str) -> Option<&(Arc<str>, MachinePhase)> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(node));
        found.ok().map(|index| &self.0[index])
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, MachinePhase)> for Machines {
    /// Where two machines claim one node, the one in the better phase counts.
    fn from_iter<I: IntoIterator<Item = (N, MachinePhase)>>(machines: I) -> Self {
        let machines = machines.into_iter();
        let mut by_node: Vec<_> = machines.map(|(node, phase)| (node.into(), phase)).collect();
        by_node.sort();
        by_node.dedup_by(|later, kept| later.0 == kept.0);
        Self(by_node.into())
    }
}

/// Unhealthy conditions by worker pool, from the Shoot.
pub type PoolConditions = BTreeMap<String, Vec<String>>;

/// Why a node is not a candidate. The order is the order in which causes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Not managed by machine-controller-manager: nobody would replace it.
    Unmanaged,
    /// One of its pool's unhealthy conditions is true.
    UnhealthyCondition,
    /// It has no Machine.
    NoMachine,
    /// Its Machine is failed.
    MachineFailed,
    /// Its Machine is terminating.
    MachineTerminating,
    /// It is being updated in place.
    InPlaceUpdate,
    /// It has no lease.
    NoLease,
    /// Its lease was never renewed, and the node is younger than the grace period.
    NeverRenewed,
}

impl Exclusion {
    /// Every cause, in order.
    pub const ALL: [Self; 8] = [
        Self::Unmanaged,
        Self::UnhealthyCondition,
        Self::NoMachine,
        Self::MachineFailed,
        Self::MachineTerminating,
        Self::InPlaceUpdate,
        Self::NoLease,
        Self::NeverRenewed,
    ];

    /// The cause as a label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unmanaged => "unmanaged",
            Self::UnhealthyCondition => "unhealthyCondition",
            Self::NoMachine => "noMachine",
            Self::MachineFailed => "machineFailed",
            Self::MachineTerminating => "machineTerminating",
            Self::InPlaceUpdate => "inPlaceUpdate",
            Self::NoLease => "noLease",
            Self::NeverRenewed => "neverRenewed",
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmanaged => "not managed by machine-controller-manager",
            Self::UnhealthyCondition => "with an unhealthy condition",
            Self::NoMachine => "without a machine",
            Self::MachineFailed => "whose machine failed",
            Self::MachineTerminating => "whose machine is terminating",
            Self::InPlaceUpdate => "in an in-place update",
            Self::NoLease => "without a lease",
            Self::NeverRenewed => "too young to have renewed",
        })
    }
}

/// How many nodes each cause excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclusions([u32; Exclusion::ALL.len()]);

impl Exclusions {
    pub(crate) fn add(&mut self, cause: Exclusion) {
        self.0[cause as usize] += 1;
    }

    /// Nodes excluded for `cause`.
    pub fn of(&self, cause: Exclusion) -> u32 {
        self.0[cause as usize]
    }

    /// Nodes excluded for any cause.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// The causes that excluded somebody, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Exclusion, u32)> {
        Exclusion::ALL
            .into_iter()
            .map(|cause| (cause, self.of(cause)))
            .filter(|(_, n)| *n > 0)
    }
}

impl Serialize for Exclusions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (cause, count) in self.iter() {
            map.serialize_entry(cause.as_str(), &count)?;
        }
        map.end()
    }
}

/// Why this node's lease proves nothing about the kubelets' way to the API server; `None` for a
/// candidate. `machines` is `None` where the Machine resource does not exist: that rule is off then.
pub fn exclusion(
    node: &Node,
    machines: Option<&Machines>,
    pools: &PoolConditions,
) -> Option<Exclusion> {
    RosterNode::new(node, machines, pools).exclusion
}

/// The nodes of a cluster and which of them are candidates: what the node cache knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// Sorted by name, each name once.
    nodes: Vec<RosterNode>,
}

/// What is kept of a node: enough to judge it anew when its machine changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RosterNode {
    pub(crate) name: Arc<str>,
    pub(crate) created: Time,
    pub(crate) exclusion: Option<Exclusion>,
    /// What is wrong with the node itself.
    own: Option<Exclusion>,
    is_updating: bool,
}

impl RosterNode {
    fn new(node: &Node, machines: Option<&Machines>, pools: &PoolConditions) -> Self {
        let of_pool = node.pool.as_ref().and_then(|pool| pools.get(pool));
        let of_pool = of_pool.filter(|kinds| !kinds.is_empty());
        let is_unhealthy = |condition: &Condition| {
            condition.is_true
                && of_pool.map_or_else(
                    || DEFAULT_UNHEALTHY_CONDITIONS.contains(&condition.kind.as_str()),
                    |kinds| kinds.contains(&condition.kind),
                )
        };
        let is_updating = |condition: &Condition| {
            condition.kind == IN_PLACE_UPDATE
                && IN_PLACE_UPDATE_REASONS.contains(&condition.reason.as_str())
        };
        let own = if node.unmanaged {
            Some(Exclusion::Unmanaged)
        } else {
            let any = node.conditions.iter().any(is_unhealthy);
            any.then_some(Exclusion::UnhealthyCondition)
        };
        let mut node = Self {
            name: node.name.as_str().into(),
            created: node.created,
            exclusion: None,
            own,
            is_updating: node.conditions.iter().any(is_updating),
        };
        node.judge(machines);
        node
    }

    fn judge(&mut self, machines: Option<&Machines>) {
        let by_machine = match machines.map(|machines| machines.of(&self.name)) {
            None => None,
            Some(None) => Some(Exclusion::NoMachine),
            Some(Some((name, phase))) => {
                self.name.clone_from(name);
                match phase {
                    MachinePhase::Alive => None,
                    MachinePhase::Failed => Some(Exclusion::MachineFailed),
                    MachinePhase::Terminating => Some(Exclusion::MachineTerminating),
                }
            }
        };
        let by_update = self.is_updating.then_some(Exclusion::InPlaceUpdate);
        self.exclusion = self.own.or(by_machine).or(by_update);
    }
}

impl Roster {
    /// Judges every node; see [`exclusion`].
    pub fn new<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        machines: Option<&Machines>,
        pools: &PoolConditions,
    ) -> Self {
        let mut nodes: Vec<_> = nodes
            .into_iter()
            .map(|node| RosterNode::new(node, machines, pools))
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name).then(a.created.cmp(&b.created)));
        nodes.dedup_by(|later, kept| later.name == kept.name);
        Self { nodes }
    }

    pub(crate) fn set_machines(&mut self, machines: Option<&Machines>) {
        for node in &mut self.nodes {
            node.judge(machines);
        }
    }

    pub(crate) fn nodes(&self) -> &[RosterNode] {
        &self.nodes
    }

    /// Each node with the cause that excludes it, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<Exclusion>)> {
        self.nodes.iter().map(|node| (&*node.name, node.exclusion))
    }

    /// Whether the cluster has no node at all.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes the cluster has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}
