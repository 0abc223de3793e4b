//! The nodes of a cluster, one row each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::nodes::{Exclusion, MachinePhase, Machines, NodeSet};
use crate::prober::{LeaseRole, LeaseTracker};

/// The most rows of a list. A page shows the others as a number.
const MAX_ROWS: usize = 500;

/// The nodes of a cluster at one instant. Those that are not well come first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    /// The instant that was judged.
    pub at: Time,
    /// The rows.
    pub rows: Vec<NodeRow>,
    /// The number of further nodes, for which there was no room.
    pub omitted: u32,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The name of the node and of its lease.
    pub name: String,
    /// The zone, if the node has a label that names it.
    pub zone: Option<String>,
    /// The worker pool, if the node has a label that names it.
    pub pool: Option<String>,
    /// The node's machine; `None` if machines are not known.
    pub machine: Option<MachineState>,
    /// The state of the node.
    pub state: NodeState,
    /// The last renewal on the prober's timeline.
    pub renewed: Option<Time>,
    /// The instant from which the lease counts as expired, unless it is renewed.
    pub expires_at: Option<Time>,
    /// The reason why the node does not count; `None` if it does.
    pub not_counted: Option<String>,
}

/// The state of a node. The order is that of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// The lease is expired.
    Expired,
    /// The lease was not renewed for half the grace period.
    Silent,
    /// The node does not count.
    NotCounted,
    /// The lease has no node, or its node was not read yet.
    Unknown,
    /// The lease is renewed.
    Renewing,
}

/// The machine of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineState {
    /// It is neither failed nor terminating.
    Alive,
    /// It is being deleted.
    Terminating,
    /// It has failed.
    Failed,
    /// The node has none.
    Missing,
}

impl NodeList {
    /// Lists the nodes as judged under this grace period at `now`.
    pub fn new(
        tracker: &LeaseTracker,
        machines: Option<&Machines>,
        grace: Duration,
        now: Time,
    ) -> Self {
        let mut rows: Vec<Row<'_>> = tracker
            .leases(grace)
            .map(|lease| Row {
                state: match lease.role {
                    LeaseRole::Unknown | LeaseRole::Orphan => NodeState::Unknown,
                    LeaseRole::Excluded => NodeState::NotCounted,
                    LeaseRole::Candidate if lease.expires_at <= now => NodeState::Expired,
                    LeaseRole::Candidate if lease.silent_at <= now => NodeState::Silent,
                    LeaseRole::Candidate => NodeState::Renewing,
                },
                name: lease.name,
                renewed: lease.renewal,
                expires_at: Some(lease.expires_at),
                lacks_lease: false,
            })
            .collect();
        let names = tracker.nodes().into_iter().flat_map(NodeSet::iter);
        let without_lease: Vec<Row<'_>> = names
            .filter(|(name, _)| rows.binary_search_by(|row| row.name.cmp(name)).is_err())
            .map(|(name, _)| Row {
                name,
                state: NodeState::NotCounted,
                renewed: None,
                expires_at: None,
                lacks_lease: true,
            })
            .collect();
        rows.extend(without_lease);
        rows.sort_unstable_by_key(|row| (row.state, row.name));
        let omitted = rows.len().saturating_sub(MAX_ROWS);
        rows.truncate(MAX_ROWS);
        let rows = rows.into_iter().map(|row| row.filled(tracker, machines));
        Self {
            at: now,
            rows: rows.collect(),
            omitted: u32::try_from(omitted).unwrap_or(u32::MAX),
        }
    }
}

/// A row before its node is looked up.
struct Row<'a> {
    name: &'a str,
    state: NodeState,
    renewed: Option<Time>,
    expires_at: Option<Time>,
    lacks_lease: bool,
}

impl Row<'_> {
    fn filled(self, tracker: &LeaseTracker, machines: Option<&Machines>) -> NodeRow {
        let nodes = tracker.nodes();
        let node = nodes.and_then(|nodes| Some((nodes, nodes.find(self.name)?)));
        let group = |name: Option<&str>| name.map(str::to_owned);
        let exclusion = node.and_then(|(_, node)| node.exclusion);
        let exclusion = exclusion.or(self.lacks_lease.then_some(Exclusion::NoLease));
        let machine = machines.map(|machines| match machines.phase(self.name) {
            None => MachineState::Missing,
            Some(MachinePhase::Alive) => MachineState::Alive,
            Some(MachinePhase::Terminating) => MachineState::Terminating,
            Some(MachinePhase::Failed) => MachineState::Failed,
        });
        NodeRow {
            name: self.name.to_owned(),
            zone: group(node.and_then(|(nodes, node)| nodes.zone_name(node.zone?.index()))),
            pool: group(node.and_then(|(nodes, node)| nodes.pool_name(node.pool?.index()))),
            machine,
            state: self.state,
            renewed: self.renewed,
            expires_at: self.expires_at,
            not_counted: match (exclusion, self.state) {
                (Some(cause), _) => Some(cause.to_string()),
                (None, NodeState::Unknown) => Some("its node was not found".to_owned()),
                (None, _) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober::{Lease, ListSpan, Node, NodeConventions, PoolConditions};

    const GRACE: Duration = Duration::from_secs(40);

    fn at(second: i64) -> Time {
        Time::from_micros(second * 1_000_000)
    }

    fn node(name: &str) -> Node {
        Node {
            name: name.to_owned(),
            zone: Some("eu-1a".to_owned()),
            pool: Some("workers".to_owned()),
            ..Node::default()
        }
    }

    /// `silent` stops at 10 s, the others renew every 10 s.
    fn tracker(names: &[&str], nodes: &[Node]) -> LeaseTracker {
        let mut tracker = LeaseTracker::default();
        for second in [0, 10, 20, 30, 40] {
            let leases = names.iter().map(|name| Lease {
                name,
                renew_time: Some(at(if *name == "silent" {
                    second.min(10)
                } else {
                    second
                })),
                duration_seconds: Some(40),
            });
            let span = ListSpan {
                start: at(second),
                end: at(second),
            };
            tracker.observe_leases(span, None, GRACE, leases);
        }
        let conventions = NodeConventions::default();
        let nodes = NodeSet::new(nodes, None, &PoolConditions::new(), &conventions);
        tracker.observe_nodes(nodes, at(40));
        tracker
    }

    #[test]
    fn unwell_nodes_come_first_with_their_reason() {
        let unmanaged = Node {
            unmanaged: true,
            ..node("extra")
        };
        let nodes = [node("a"), node("silent"), unmanaged, node("leaseless")];
        let tracker = tracker(&["a", "extra", "orphan", "silent"], &nodes);
        let machines: Machines = [("a", MachinePhase::Alive), ("silent", MachinePhase::Failed)]
            .into_iter()
            .collect();
        let list = NodeList::new(&tracker, Some(&machines), GRACE, at(40));
        let rows: Vec<_> = list
            .rows
            .iter()
            .map(|row| (&*row.name, row.state, row.not_counted.as_deref()))
            .collect();
        let unmanaged = "not managed by machine-controller-manager";
        assert_eq!(
            rows,
            [
                ("silent", NodeState::Expired, None),
                ("extra", NodeState::NotCounted, Some(unmanaged)),
                ("leaseless", NodeState::NotCounted, Some("without a lease")),
                ("orphan", NodeState::Unknown, Some("its node was not found")),
                ("a", NodeState::Renewing, None),
            ]
        );
        assert_eq!(list.rows[0].renewed, Some(at(10)));
        assert_eq!(list.rows[0].machine, Some(MachineState::Failed));
        assert_eq!(list.rows[1].machine, Some(MachineState::Missing));
        assert_eq!(list.rows[4].zone.as_deref(), Some("eu-1a"));
        assert_eq!(list.rows[4].pool.as_deref(), Some("workers"));
    }

    #[test]
    fn long_list_is_cut_after_the_unwell() {
        let mut names: Vec<String> = (0..800).map(|number| format!("node-{number:03}")).collect();
        names.push("silent".to_owned());
        let nodes: Vec<Node> = names.iter().map(|name| node(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let list = NodeList::new(&tracker(&names, &nodes), None, GRACE, at(40));
        assert_eq!((list.rows.len(), list.omitted), (500, 301));
        assert_eq!(list.rows[0].name, "silent");
    }
}
