//! The nodes of a cluster: which of them are candidates, and why the others are excluded.

mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Time, shared_name};
pub use rules::{NodeRules, NodeSetBuilder};

/// The maximum length of a label's value, which API servers enforce. Longer ones are hostile.
const MAX_LABEL_BYTES: usize = 63;

/// The maximum number of zones, and of worker pools, that are told apart in a cluster.
const MAX_GROUPS: usize = 1_024;

/// The label with which Kubernetes itself marks the zone of a node.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The labels, annotations and conditions with which a platform marks its nodes. Each cluster
/// source defines those of its platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeConventions {
    /// The label that names a node's worker pool.
    pub pool_label: &'static str,
    /// The annotation of a node that no machine controller would replace.
    pub unmanaged_annotation: &'static str,
    /// Conditions that exclude a node if its worker pool names none of its own.
    pub unhealthy_conditions: &'static [&'static str],
    /// The condition of a node that is updated in place.
    pub update_condition: &'static str,
    /// Reasons of that condition for which the kubelet may be down.
    pub update_reasons: &'static [&'static str],
    /// Nodes without a Machine are candidates too: the platform also has nodes of other origin.
    pub nodes_may_lack_machine: bool,
}

/// The fields of a Node object that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name of the node and of its lease.
    pub name: String,
    /// The creation timestamp, by the clock of the API server.
    pub created: Time,
    /// The worker pool, by [`NodeConventions::pool_label`].
    pub pool: Option<String>,
    /// The zone, by [`ZONE_LABEL`].
    pub zone: Option<String>,
    /// The node carries [`NodeConventions::unmanaged_annotation`].
    pub unmanaged: bool,
    /// The conditions that [may exclude](NodeRules::uses_condition) the node.
    pub conditions: Vec<NodeCondition>,
}

/// The fields of a node condition that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// The type, such as `DiskPressure`.
    pub kind: String,
    /// The status is `True`.
    pub is_true: bool,
    /// The reason.
    pub reason: String,
}

/// The phase of a Machine, as far as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachinePhase {
    /// Any phase other than `Failed` and `Terminating`.
    Alive,
    /// The phase is `Terminating`.
    Terminating,
    /// The phase is `Failed`.
    Failed,
}

/// The machines of a cluster, sorted by the name of their node.
///
/// The machines, the nodes and the leases share one allocation per name. There are many names, and
/// they are held for every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines(Box<[(Arc<str>, MachinePhase)]>);

impl Machines {
    /// Returns the shared name of a node and the phase of its machine.
    fn get(&self, node: &str) -> Option<&(Arc<str>, MachinePhase)> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(node));
        found.ok().map(|index| &self.0[index])
    }

    /// Returns the phase of a node's machine; `None` if it has none.
    pub(crate) fn phase(&self, node: &str) -> Option<MachinePhase> {
        self.get(node).map(|(_, phase)| *phase)
    }
}

impl Serialize for Machines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(node, phase)| (&**node, phase)))
    }
}

impl<'de> Deserialize<'de> for Machines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let phases = BTreeMap::<String, MachinePhase>::deserialize(deserializer)?;
        Ok(phases.into_iter().collect())
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, MachinePhase)> for Machines {
    /// Collects machines. If two machines claim one node, the one in the better phase counts.
    fn from_iter<I: IntoIterator<Item = (N, MachinePhase)>>(machines: I) -> Self {
        let machines = machines.into_iter();
        let mut by_node: Vec<_> = machines.map(|(node, phase)| (node.into(), phase)).collect();
        by_node.sort();
        by_node.dedup_by(|later, kept| later.0 == kept.0);
        Self(by_node.into())
    }
}

/// The unhealthy conditions of worker pools that define their own, by pool.
pub type PoolConditions = BTreeMap<String, Vec<String>>;

/// The cause that excludes a node from the candidates. If several apply, the first one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exclusion {
    /// The node is not managed by machine-controller-manager, which would never replace it.
    Unmanaged,
    /// One of the unhealthy conditions of the node's pool is true.
    UnhealthyCondition,
    /// The node has no Machine.
    NoMachine,
    /// The node's Machine has failed.
    MachineFailed,
    /// The node's Machine is terminating.
    MachineTerminating,
    /// The node is being updated in place.
    InPlaceUpdate,
    /// The node has no lease.
    NoLease,
    /// The node's lease was never renewed, and the node is younger than the grace period.
    NeverRenewed,
}

impl Exclusion {
    /// All causes, in the order in which they are checked.
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

    /// Returns the cause as it appears in metric labels and JSON.
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

/// The number of nodes that each cause excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclusions([u32; Exclusion::ALL.len()]);

impl Exclusions {
    pub(crate) fn add(&mut self, cause: Exclusion) {
        self.0[cause as usize] += 1;
    }

    /// Returns the number of nodes that `cause` excludes.
    pub fn of(&self, cause: Exclusion) -> u32 {
        self.0[cause as usize]
    }

    /// Returns the number of excluded nodes.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// Returns the causes that exclude at least one node, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Exclusion, u32)> {
        Exclusion::ALL
            .into_iter()
            .map(|cause| (cause, self.of(cause)))
            .filter(|(_, n)| *n > 0)
    }
}

/// Ignores causes that this version does not know.
impl<'de> Deserialize<'de> for Exclusions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, u32>::deserialize(deserializer)?;
        let count = |cause: Exclusion| counts.get(cause.as_str()).copied().unwrap_or(0);
        Ok(Self(Exclusion::ALL.map(count)))
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

/// Returns the cause that excludes a node, or `None` for a candidate.
///
/// The lease of an excluded node proves nothing about the network between the kubelets and the API
/// server. `machines` is `None` if the Machine resource does not exist; no node is excluded because
/// of its Machine then.
pub fn exclusion(
    node: &Node,
    machines: Option<&Machines>,
    pools: &PoolConditions,
    conventions: &NodeConventions,
) -> Option<Exclusion> {
    let mut node = TrackedNode::new(node, pools, conventions);
    node.evaluate(machines, true);
    node.exclusion
}

/// The nodes of a cluster as last listed, each with the cause that excludes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSet {
    /// Sorted by name, without duplicates.
    nodes: Vec<TrackedNode>,
    zones: GroupNames,
    pools: GroupNames,
}

/// The number of a zone or of a worker pool in its [`NodeSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupId(u16);

impl GroupId {
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// The names of the zones or worker pools of a cluster. Nodes refer to them by number: a cluster
/// has few of them, and thousands of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct GroupNames(BTreeMap<Box<str>, GroupId>);

impl GroupNames {
    /// Returns the number of a group. A cluster with more than [`MAX_GROUPS`], or with a longer
    /// name than a label may have, is hostile: such nodes belong to no group.
    fn id(&mut self, name: Option<&str>) -> Option<GroupId> {
        let name = name.filter(|name| (1..=MAX_LABEL_BYTES).contains(&name.len()))?;
        if let Some(id) = self.0.get(name) {
            return Some(*id);
        }
        if self.0.len() == MAX_GROUPS {
            return None;
        }
        let id = GroupId(u16::try_from(self.0.len()).ok()?);
        self.0.insert(name.into(), id);
        Some(id)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn name(&self, index: usize) -> Option<&str> {
        let mut names = self.0.iter();
        let found = names.find(|(_, id)| id.index() == index);
        found.map(|(name, _)| &**name)
    }
}

/// A node, with everything that is needed to evaluate it again when its Machine changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrackedNode {
    #[serde(with = "shared_name")]
    pub(crate) name: Arc<str>,
    pub(crate) created: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<GroupId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<GroupId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exclusion: Option<Exclusion>,
    /// The cause found on the node itself, which comes before its Machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_exclusion: Option<Exclusion>,
    /// The node had no Machine when the Machines were last current.
    #[serde(default, skip_serializing_if = "Not::not")]
    lacks_machine: bool,
    #[serde(default, skip_serializing_if = "Not::not")]
    may_lack_machine: bool,
    #[serde(default, skip_serializing_if = "Not::not")]
    is_updating: bool,
}

impl TrackedNode {
    /// Judges a node by what is written on it, not yet by its Machine.
    fn new(node: &Node, pools: &PoolConditions, conventions: &NodeConventions) -> Self {
        let pool_conditions = node.pool.as_ref().and_then(|pool| pools.get(pool));
        let pool_conditions = pool_conditions.filter(|kinds| !kinds.is_empty());
        let is_unhealthy = |condition: &NodeCondition| {
            condition.is_true
                && pool_conditions.map_or_else(
                    || conventions.unhealthy_conditions.contains(&&*condition.kind),
                    |kinds| kinds.contains(&condition.kind),
                )
        };
        let is_updating = |condition: &NodeCondition| {
            condition.kind == conventions.update_condition
                && conventions.update_reasons.contains(&&*condition.reason)
        };
        let own_exclusion = if node.unmanaged {
            Some(Exclusion::Unmanaged)
        } else {
            let any = node.conditions.iter().any(is_unhealthy);
            any.then_some(Exclusion::UnhealthyCondition)
        };
        Self {
            name: node.name.as_str().into(),
            created: node.created,
            zone: None,
            pool: None,
            exclusion: None,
            own_exclusion,
            lacks_machine: false,
            may_lack_machine: conventions.nodes_may_lack_machine,
            is_updating: node.conditions.iter().any(is_updating),
        }
    }

    fn evaluate(&mut self, machines: Option<&Machines>, are_current: bool) {
        let machine = machines.map(|machines| machines.get(&self.name));
        if are_current {
            self.lacks_machine = machine == Some(None) && !self.may_lack_machine;
        }
        let by_machine = match machine {
            None => None,
            Some(None) => self.lacks_machine.then_some(Exclusion::NoMachine),
            Some(Some((name, phase))) => {
                self.name.clone_from(name);
                match phase {
                    MachinePhase::Alive => None,
                    MachinePhase::Failed => Some(Exclusion::MachineFailed),
                    MachinePhase::Terminating => Some(Exclusion::MachineTerminating),
                }
            }
        };
        self.set_exclusion(by_machine);
    }

    fn set_exclusion(&mut self, by_machine: Option<Exclusion>) {
        let by_update = self.is_updating.then_some(Exclusion::InPlaceUpdate);
        self.exclusion = self.own_exclusion.or(by_machine).or(by_update);
    }
}

impl NodeSet {
    /// Evaluates every node, see [`exclusion`]. If a name occurs twice, the older node counts.
    pub fn new<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        machines: Option<&Machines>,
        pools: &PoolConditions,
        conventions: &NodeConventions,
    ) -> Self {
        let rules = NodeRules::new(*conventions, Arc::new(pools.clone()));
        let mut builder = NodeSetBuilder::new(Arc::new(rules));
        builder.extend(nodes);
        builder.finish(machines)
    }

    pub(crate) fn set_machines(&mut self, machines: Option<&Machines>, are_current: bool) {
        for node in &mut self.nodes {
            node.evaluate(machines, are_current);
        }
    }

    /// Excludes nodes for a missing Machine only if they had none in `before`, the last list. The
    /// Machines may be older than the other nodes.
    pub(crate) fn include_new_nodes(&mut self, before: Option<&Self>) {
        let before = before.map_or(&[][..], |before| &before.nodes);
        for node in self.nodes.iter_mut().filter(|node| node.lacks_machine) {
            let found = before.binary_search_by(|old| old.name.cmp(&node.name));
            if !found.is_ok_and(|index| before[index].lacks_machine) {
                node.lacks_machine = false;
                node.set_exclusion(None);
            }
        }
    }

    /// Sorts a set that was read from a record, which is not trusted.
    pub(crate) fn repair(&mut self) {
        self.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        self.nodes.dedup_by(|later, kept| later.name == kept.name);
    }

    pub(crate) fn zone_name(&self, index: usize) -> Option<&str> {
        self.zones.name(index)
    }

    pub(crate) fn pool_name(&self, index: usize) -> Option<&str> {
        self.pools.name(index)
    }

    pub(crate) fn nodes(&self) -> &[TrackedNode] {
        &self.nodes
    }

    /// Returns the node of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&TrackedNode> {
        let found = self.nodes.binary_search_by(|node| (*node.name).cmp(name));
        found.ok().map(|index| &self.nodes[index])
    }

    /// Returns each node with the cause that excludes it, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<Exclusion>)> {
        self.nodes.iter().map(|node| (&*node.name, node.exclusion))
    }

    /// Returns whether the cluster has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}
