//! The causes that exclude a node from the candidates.

use kelpie_core::prober::{
    Evaluator, Exclusion, MachinePhase, Machines, Node, NodeCondition, NodeConventions, NodeSet,
    PoolConditions, exclusion,
};

use crate::evaluator_fixture::{at, settings};

const CONVENTIONS: NodeConventions = NodeConventions {
    pool_label: "pool",
    unmanaged_annotation: "unmanaged",
    unhealthy_conditions: &[
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "DiskPressure",
        "NetworkUnavailable",
    ],
    update_condition: "InPlaceUpdate",
    update_reasons: &["ReadyForUpdate", "UpdateFailed"],
    nodes_may_lack_machine: false,
};

fn node(change: impl FnOnce(&mut Node)) -> Node {
    let mut node = Node {
        name: "a".into(),
        pool: Some("pool".into()),
        ..Node::default()
    };
    change(&mut node);
    node
}

fn node_with_condition(kind: &str, is_true: bool, reason: &str) -> Node {
    node(|node| {
        node.conditions = vec![NodeCondition {
            kind: kind.into(),
            is_true,
            reason: reason.into(),
        }];
    })
}

fn machine(phase: MachinePhase) -> Machines {
    [("a".to_string(), phase)].into_iter().collect()
}

#[test]
fn node_state_decides_exclusion() {
    let alive = machine(MachinePhase::Alive);
    let none = PoolConditions::new();
    let own: PoolConditions = [("pool".into(), vec!["Rusty".into()])].into();
    let empty: PoolConditions = [("pool".into(), vec![])].into();
    let rows = [
        ("a healthy node", node(|_| ()), Some(&alive), &none, None),
        (
            "unmanaged",
            node(|n| n.unmanaged = true),
            Some(&alive),
            &none,
            Some(Exclusion::Unmanaged),
        ),
        (
            "disk pressure",
            node_with_condition("DiskPressure", true, ""),
            Some(&alive),
            &none,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "kernel deadlock",
            node_with_condition("KernelDeadlock", true, ""),
            Some(&alive),
            &empty,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "no disk pressure",
            node_with_condition("DiskPressure", false, ""),
            Some(&alive),
            &none,
            None,
        ),
        (
            "its pool has other conditions",
            node_with_condition("DiskPressure", true, ""),
            Some(&alive),
            &own,
            None,
        ),
        (
            "a condition of its pool",
            node_with_condition("Rusty", true, ""),
            Some(&alive),
            &own,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "not ready",
            node_with_condition("Ready", false, ""),
            Some(&alive),
            &none,
            None,
        ),
        (
            "in-place update",
            node_with_condition("InPlaceUpdate", true, "ReadyForUpdate"),
            Some(&alive),
            &none,
            Some(Exclusion::InPlaceUpdate),
        ),
        (
            "failed update",
            node_with_condition("InPlaceUpdate", false, "UpdateFailed"),
            Some(&alive),
            &none,
            Some(Exclusion::InPlaceUpdate),
        ),
        (
            "update done",
            node_with_condition("InPlaceUpdate", true, "UpdateSuccessful"),
            Some(&alive),
            &none,
            None,
        ),
    ];
    for (case, node, machines, pools, expected) in rows {
        assert_eq!(
            exclusion(&node, machines, pools, &CONVENTIONS),
            expected,
            "{case}"
        );
    }
}

#[test]
fn node_may_lack_its_machine_by_convention() {
    let conventions = NodeConventions {
        nodes_may_lack_machine: true,
        ..CONVENTIONS
    };
    let excluded = |machines: &Machines| {
        let node = node(|_| {});
        exclusion(&node, Some(machines), &PoolConditions::new(), &conventions)
    };
    assert_eq!(excluded(&Machines::default()), None);
    let failed = excluded(&machine(MachinePhase::Failed));
    assert_eq!(failed, Some(Exclusion::MachineFailed));
}

#[test]
fn dead_or_missing_machine_excludes_node() {
    let rows = [
        ("no such resource", None, None),
        (
            "no machine",
            Some(Machines::default()),
            Some(Exclusion::NoMachine),
        ),
        ("alive", Some(machine(MachinePhase::Alive)), None),
        (
            "failed",
            Some(machine(MachinePhase::Failed)),
            Some(Exclusion::MachineFailed),
        ),
        (
            "terminating",
            Some(machine(MachinePhase::Terminating)),
            Some(Exclusion::MachineTerminating),
        ),
    ];
    for (case, machines, expected) in rows {
        let pools = PoolConditions::new();
        assert_eq!(
            exclusion(&node(|_| ()), machines.as_ref(), &pools, &CONVENTIONS),
            expected,
            "{case}"
        );
    }
}

#[test]
fn order_of_machines_and_nodes_is_irrelevant() {
    let phases = [
        MachinePhase::Failed,
        MachinePhase::Alive,
        MachinePhase::Terminating,
    ];
    let machines = |order: [usize; 3]| -> Machines {
        order
            .into_iter()
            .map(|index| ("a".to_string(), phases[index]))
            .collect()
    };
    let expected = machines([0, 1, 2]);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(machines(order), expected);
    }
    let pools = PoolConditions::new();
    let b = node(|node| node.name = "b".into());
    let forwards = NodeSet::new(
        [&node(|_| ()), &b, &b],
        Some(&expected),
        &pools,
        &CONVENTIONS,
    );
    let backwards = NodeSet::new([&b, &node(|_| ())], Some(&expected), &pools, &CONVENTIONS);
    assert_eq!(forwards, backwards);
    assert_eq!(forwards.len(), 2);
    assert!(!forwards.is_empty());
    assert_eq!(
        forwards.iter().collect::<Vec<_>>(),
        [("a", None), ("b", Some(Exclusion::NoMachine))]
    );
}

#[test]
fn causes_have_distinct_labels_and_texts() {
    let mut texts: Vec<_> = Exclusion::ALL
        .into_iter()
        .flat_map(|cause| [cause.as_str().to_string(), cause.to_string()])
        .collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 2 * Exclusion::ALL.len());
}

fn nodes_of(names: &[&str], machines: &Machines) -> NodeSet {
    let named = |name: &&str| node(|node| node.name = String::from(*name));
    let nodes: Vec<Node> = names.iter().map(named).collect();
    NodeSet::new(&nodes, Some(machines), &PoolConditions::new(), &CONVENTIONS)
}

#[test]
fn nodes_without_a_machine_count_while_machines_are_outdated() {
    let machines: Machines = [("a", MachinePhase::Alive)].into_iter().collect();
    let mut evaluator = Evaluator::new(settings(), at(0.0));
    let excluded = |evaluator: &Evaluator| -> Vec<String> {
        let nodes = evaluator.leases().nodes().unwrap();
        let excluded = nodes.iter().filter(|(_, cause)| cause.is_some());
        excluded.map(|(name, _)| name.to_owned()).collect()
    };
    evaluator.observe_machines(Some(&machines), true);
    evaluator.observe_nodes(nodes_of(&["a", "b"], &machines), at(0.0));
    assert_eq!(excluded(&evaluator), ["b"]);

    // The watch fails, and `c` joins.
    evaluator.observe_machines(Some(&machines), false);
    assert_eq!(excluded(&evaluator), ["b"], "it had no machine before");
    for now in [10.0, 20.0] {
        evaluator.observe_nodes(nodes_of(&["a", "b", "c"], &machines), at(now));
        assert_eq!(excluded(&evaluator), ["b"], "{now}");
    }
    let failed: Machines = [("a", MachinePhase::Failed)].into_iter().collect();
    evaluator.observe_machines(Some(&failed), false);
    assert_eq!(excluded(&evaluator), ["a", "b"]);

    evaluator.observe_machines(Some(&machines), true);
    assert_eq!(excluded(&evaluator), ["b", "c"]);
}

#[test]
fn first_nodes_count_while_machines_are_outdated() {
    let mut evaluator = Evaluator::new(settings(), at(0.0));
    let none = Machines::default();
    evaluator.observe_machines(Some(&none), false);
    evaluator.observe_nodes(nodes_of(&["a"], &none), at(0.0));
    let nodes = evaluator.leases().nodes().unwrap();
    assert!(nodes.iter().all(|(_, cause)| cause.is_none()));
}
