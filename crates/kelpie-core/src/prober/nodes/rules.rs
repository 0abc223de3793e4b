//! The rules by which the nodes of a cluster are judged, and the judgement of a list of nodes while
//! it is decoded.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Machines, Node, NodeConventions, NodeSet, PoolConditions, TrackedNode};

/// The rules by which the nodes of one cluster are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRules {
    conventions: NodeConventions,
    pools: Arc<PoolConditions>,
    /// The types of all conditions that exclude a node of some pool.
    named: BTreeSet<Box<str>>,
}

impl NodeRules {
    /// Creates the rules of a cluster with these worker pools.
    pub fn new(conventions: NodeConventions, pools: Arc<PoolConditions>) -> Self {
        let of_pools = pools.values().flatten().map(String::as_str);
        let of_platform = conventions.unhealthy_conditions.iter().copied();
        let named = of_pools
            .chain(of_platform)
            .chain([conventions.update_condition]);
        let named = named.filter(|kind| !kind.is_empty()).map(Box::from);
        Self {
            conventions,
            named: named.collect(),
            pools,
        }
    }

    /// Returns the conventions of the platform.
    pub fn conventions(&self) -> &NodeConventions {
        &self.conventions
    }

    /// Returns the conditions that the worker pools name.
    pub fn pools(&self) -> &Arc<PoolConditions> {
        &self.pools
    }

    /// Returns whether a condition of this type may exclude a node. All others need not be kept:
    /// their number and size are the tenant's choice.
    pub fn uses_condition(&self, kind: &str, is_true: bool) -> bool {
        (is_true || kind == self.conventions.update_condition) && self.named.contains(kind)
    }
}

/// Judges the nodes of a list one by one. Of a node, little more than its name is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSetBuilder {
    rules: Arc<NodeRules>,
    set: NodeSet,
}

impl NodeSetBuilder {
    /// Creates a builder that judges nodes by these rules.
    pub fn new(rules: Arc<NodeRules>) -> Self {
        Self {
            rules,
            set: NodeSet::default(),
        }
    }

    /// Returns the rules by which the nodes are judged.
    pub fn rules(&self) -> &Arc<NodeRules> {
        &self.rules
    }

    fn add(&mut self, node: &Node) {
        let rules = &self.rules;
        let mut tracked = TrackedNode::new(node, &rules.pools, &rules.conventions);
        tracked.zone = self.set.zones.id(node.zone.as_deref());
        tracked.pool = self.set.pools.id(node.pool.as_deref());
        self.set.nodes.push(tracked);
    }

    /// Judges the nodes by their machines too. If a name occurs twice, the older node counts.
    pub fn finish(self, machines: Option<&Machines>) -> NodeSet {
        let mut set = self.set;
        let nodes = &mut set.nodes;
        nodes.sort_by(|a, b| a.name.cmp(&b.name).then(a.created.cmp(&b.created)));
        nodes.dedup_by(|later, kept| later.name == kept.name);
        // Spare capacity would be held for every cluster.
        nodes.shrink_to_fit();
        set.set_machines(machines, true);
        set
    }
}

impl Extend<Node> for NodeSetBuilder {
    fn extend<I: IntoIterator<Item = Node>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| self.add(&node));
    }
}

impl<'a> Extend<&'a Node> for NodeSetBuilder {
    fn extend<I: IntoIterator<Item = &'a Node>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| self.add(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONVENTIONS: NodeConventions = NodeConventions {
        pool_label: "pool",
        unmanaged_annotation: "unmanaged",
        unhealthy_conditions: &["KernelDeadlock"],
        update_condition: "InPlaceUpdate",
        update_reasons: &[],
        nodes_may_lack_machine: true,
    };

    #[test]
    fn only_named_conditions_are_used() {
        let pools = [("a".to_owned(), vec!["Rusty".to_owned()])].into();
        let rules = NodeRules::new(CONVENTIONS, Arc::new(pools));
        for (kind, is_true, expected) in [
            ("Rusty", true, true),
            ("Rusty", false, false),
            ("KernelDeadlock", true, true),
            ("InPlaceUpdate", false, true),
            ("Ready", true, false),
            ("", true, false),
        ] {
            assert_eq!(rules.uses_condition(kind, is_true), expected, "{kind}");
        }
    }

    #[test]
    fn platform_without_updates_uses_no_nameless_condition() {
        let rules = NodeRules::new(NodeConventions::default(), Arc::default());
        assert!(!rules.uses_condition("", true));
    }

    /// Every node in a zone and a pool of its own, with labels as long as an item may be.
    #[test]
    fn hostile_labels_are_not_kept() {
        let mut builder = NodeSetBuilder::default();
        builder.extend((0..20_000).map(|n| Node {
            name: format!("n-{n}"),
            zone: Some(format!("zone-{n}")),
            pool: Some(format!("{n:0100}")),
            ..Node::default()
        }));
        let set = builder.finish(None);
        assert_eq!(set.len(), 20_000);
        assert_eq!(set.zones.len(), 1_024);
        assert_eq!(set.pools.len(), 0);
    }
}
