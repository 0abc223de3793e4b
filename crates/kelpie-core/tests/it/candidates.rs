//! Which nodes count.

use kelpie_core::{
    Condition, Exclusion, MachinePhase, Machines, Node, PoolConditions, Roster, exclusion,
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

fn with(kind: &str, is_true: bool, reason: &str) -> Node {
    node(|node| {
        node.conditions = vec![Condition {
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
fn each_cause_excludes_a_node_by_name() {
    let alive = machine(MachinePhase::Alive);
    let none = PoolConditions::new();
    let own: PoolConditions = [("pool".into(), vec!["Rusty".into()])].into();
    let empty: PoolConditions = [("pool".into(), vec![])].into();
    let rows = [
        ("a plain node", node(|_| ()), Some(&alive), &none, None),
        (
            "unmanaged",
            node(|n| n.unmanaged = true),
            Some(&alive),
            &none,
            Some(Exclusion::Unmanaged),
        ),
        (
            "disk pressure",
            with("DiskPressure", true, ""),
            Some(&alive),
            &none,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "kernel deadlock",
            with("KernelDeadlock", true, ""),
            Some(&alive),
            &empty,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "no disk pressure",
            with("DiskPressure", false, ""),
            Some(&alive),
            &none,
            None,
        ),
        (
            "its pool has other conditions",
            with("DiskPressure", true, ""),
            Some(&alive),
            &own,
            None,
        ),
        (
            "a condition of its pool",
            with("Rusty", true, ""),
            Some(&alive),
            &own,
            Some(Exclusion::UnhealthyCondition),
        ),
        (
            "not ready",
            with("Ready", false, ""),
            Some(&alive),
            &none,
            None,
        ),
        (
            "in-place update",
            with("InPlaceUpdate", true, "ReadyForUpdate"),
            Some(&alive),
            &none,
            Some(Exclusion::InPlaceUpdate),
        ),
        (
            "failed update",
            with("InPlaceUpdate", false, "UpdateFailed"),
            Some(&alive),
            &none,
            Some(Exclusion::InPlaceUpdate),
        ),
        (
            "update done",
            with("InPlaceUpdate", true, "UpdateSuccessful"),
            Some(&alive),
            &none,
            None,
        ),
    ];
    for (what, node, machines, pools, expected) in rows {
        assert_eq!(exclusion(&node, machines, pools), expected, "{what}");
    }
}

#[test]
fn the_machine_has_to_exist_and_be_alive_where_machines_exist_at_all() {
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
    for (what, machines, expected) in rows {
        let pools = PoolConditions::new();
        assert_eq!(
            exclusion(&node(|_| ()), machines.as_ref(), &pools),
            expected,
            "{what}"
        );
    }
}

#[test]
fn the_order_of_machines_and_nodes_does_not_matter() {
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
    let forth = Roster::new([&node(|_| ()), &b, &b], Some(&expected), &pools);
    let back = Roster::new([&b, &node(|_| ())], Some(&expected), &pools);
    assert_eq!(forth, back);
    assert_eq!(forth.len(), 2);
    assert!(!forth.is_empty());
    assert_eq!(
        forth.iter().collect::<Vec<_>>(),
        [("a", None), ("b", Some(Exclusion::NoMachine))]
    );
}

#[test]
fn causes_have_labels_and_words_of_their_own() {
    let mut texts: Vec<_> = Exclusion::ALL
        .into_iter()
        .flat_map(|cause| [cause.as_str().to_string(), cause.to_string()])
        .collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 2 * Exclusion::ALL.len());
}
