//! Which clusters get a probe: spec by spec.

use kelpie_core::{Hibernation, MachinePhase, Operation, OperationKind, ShootFacts};
use secrecy::SecretSlice;

use super::*;

/// A registry that has listed everything; the seed has machines.
fn open() -> Registry {
    let mut registry = Registry::new(false);
    let mut effects = registry.machine_kind(true);
    effects.extend(registry.machine(Change::Restarted));
    effects.extend(registry.machine(Change::Synced));
    effects.extend(registry.secret(Way::Internal, Change::Restarted));
    effects.extend(registry.secret(Way::Internal, Change::Synced));
    effects.extend(registry.cluster(Change::Restarted));
    effects.extend(registry.cluster(Change::Synced));
    assert_eq!(effects, []);
    assert!(registry.missing().is_empty());
    registry
}

fn healthy() -> ShootFacts {
    ShootFacts {
        has_workers: true,
        last_operation: Some(Operation {
            kind: OperationKind::Reconcile,
            has_succeeded: true,
        }),
        ..ShootFacts::default()
    }
}

fn applied(name: &str, shoot: ShootFacts) -> Change<ClusterFacts> {
    Change::Applied(ClusterFacts {
        name: name.into(),
        shoot: Ok(shoot),
    })
}

fn unreadable(name: &str, why: &str) -> Change<ClusterFacts> {
    Change::Applied(ClusterFacts {
        name: name.into(),
        shoot: Err(why.into()),
    })
}

fn secret(namespace: &str, kubeconfig: Option<&str>) -> Change<KubeconfigSecret> {
    let bytes = kubeconfig.map(|text| SecretSlice::from(text.as_bytes().to_vec()));
    Change::Applied(KubeconfigSecret {
        namespace: namespace.into(),
        name: "kubeconfig".into(),
        kubeconfig: bytes,
        problem: None,
    })
}

fn machine(namespace: &str, name: &str, node: &str, phase: MachinePhase) -> Change<MachineFacts> {
    Change::Applied(MachineFacts {
        namespace: namespace.into(),
        name: name.into(),
        node: Some(node.into()),
        phase,
    })
}

fn start(cluster: &str) -> Effect {
    let cluster = cluster.into();
    Effect::Start { cluster }
}

fn update(cluster: &str) -> Effect {
    let cluster = cluster.into();
    Effect::Update { cluster }
}

fn is_stop(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Stop { .. }])
}

#[test]
fn nothing_starts_before_everything_was_listed_once() {
    let mut registry = Registry::new(true);
    let mut effects = registry.cluster(Change::Restarted);
    effects.extend(registry.cluster(applied("a", healthy())));
    effects.extend(registry.cluster(Change::Synced));
    effects.extend(registry.secret(Way::Internal, Change::Restarted));
    effects.extend(registry.secret(Way::Internal, Change::Synced));
    effects.extend(registry.machine_kind(true));
    assert_eq!(
        registry.missing(),
        ["external kubeconfig Secrets", "Machines"]
    );
    effects.extend(registry.secret(Way::External, Change::Restarted));
    effects.extend(registry.secret(Way::External, Change::Synced));
    assert_eq!(effects, [], "the machines are missing");
    assert_eq!(registry.machine(Change::Restarted), []);
    assert_eq!(registry.machine(Change::Synced), [start("a")]);
}

#[test]
fn where_there_are_no_machines_nobody_waits_for_them() {
    let mut registry = Registry::new(false);
    registry.cluster(applied("a", healthy()));
    registry.cluster(Change::Synced);
    registry.secret(Way::Internal, Change::Synced);
    assert_eq!(registry.machine_kind(false), [start("a")]);
    assert!(registry.inputs("a").machines.is_none(), "the rule is off");
}

#[test]
fn a_probe_starts_once_goes_on_and_is_removed() {
    let mut registry = open();
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    assert_eq!(registry.cluster(applied("a", healthy())), [update("a")]);
    let asleep = ShootFacts {
        hibernation: Hibernation::Wanted,
        ..healthy()
    };
    assert!(is_stop(&registry.cluster(applied("a", asleep.clone()))));
    assert_eq!(registry.cluster(applied("a", asleep)), []);
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    let gone = Change::Deleted {
        namespace: String::new(),
        name: "a".into(),
    };
    assert!(is_stop(&registry.cluster(gone)));
}

#[test]
fn what_only_delays_a_start_does_not_stop_a_running_probe() {
    let mut registry = open();
    let restoring = ShootFacts {
        last_operation: Some(Operation {
            kind: OperationKind::Restore,
            has_succeeded: false,
        }),
        ..healthy()
    };
    assert_eq!(registry.cluster(applied("a", restoring.clone())), []);
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    assert_eq!(registry.cluster(applied("a", restoring)), [update("a")]);
}

#[test]
fn a_shoot_that_cannot_be_read_keeps_its_probe_and_is_told_once() {
    let mut registry = open();
    let complaint = |why: &str| Effect::Unreadable {
        cluster: "a".into(),
        why: why.into(),
    };
    registry.cluster(applied("a", healthy()));
    let effects = registry.cluster(unreadable("a", "no"));
    assert_eq!(effects, [update("a"), complaint("no")]);
    assert_eq!(registry.cluster(unreadable("a", "no")), [update("a")]);
    assert_eq!(registry.cluster(unreadable("b", "no")).len(), 1, "no probe");
    assert_eq!(registry.cluster(applied("b", healthy())), [start("b")]);
}

#[test]
fn a_new_list_without_a_cluster_removes_its_probe_when_it_is_complete() {
    let mut registry = open();
    registry.cluster(applied("a", healthy()));
    registry.cluster(applied("b", healthy()));
    assert_eq!(registry.cluster(Change::Restarted), []);
    assert_eq!(registry.cluster(applied("b", healthy())), [update("b")]);
    let effects = registry.cluster(Change::Synced);
    assert!(is_stop(&effects), "{effects:?}");
}

#[test]
fn secrets_are_taken_over_and_their_absence_too() {
    let mut registry = open();
    registry.cluster(applied("a", healthy()));
    let effects = registry.secret(Way::Internal, secret("a", Some("one")));
    assert_eq!(effects, [update("a")]);
    assert!(registry.inputs("a").internal.is_some());
    let before = registry.inputs("a").internal.unwrap();
    let again = registry.secret(Way::Internal, secret("a", Some("one")));
    assert_eq!(again, [], "the same bytes");
    assert!(Arc::ptr_eq(
        &before,
        &registry.inputs("a").internal.unwrap()
    ));
    registry.secret(Way::Internal, secret("a", None));
    let empty = registry.inputs("a").internal.unwrap();
    assert_eq!(
        empty.access().unwrap_err(),
        "the Secret holds none: it is empty"
    );
    registry.secret(Way::Internal, secret("a", Some("two")));
    registry.secret(Way::Internal, Change::Restarted);
    registry.secret(Way::Internal, Change::Synced);
    assert!(registry.inputs("a").internal.is_none());
    assert_eq!(
        registry.secret(Way::Internal, secret("stranger", Some("x"))),
        []
    );
}

#[test]
fn machines_reach_the_probe_of_their_namespace_when_something_changed() {
    let mut registry = open();
    registry.cluster(applied("a", healthy()));
    let alive = || machine("a", "m", "node", MachinePhase::Alive);
    assert_eq!(registry.machine(alive()), [update("a")]);
    let before = registry.inputs("a").machines.unwrap();
    assert_eq!(registry.machine(alive()), [], "nothing that is used");
    assert!(Arc::ptr_eq(
        &before,
        &registry.inputs("a").machines.unwrap()
    ));
    let failed = machine("a", "m", "node", MachinePhase::Failed);
    assert_eq!(registry.machine(failed), [update("a")]);
    let wanted: Machines = [("node".to_owned(), MachinePhase::Failed)]
        .into_iter()
        .collect();
    assert_eq!(*registry.inputs("a").machines.unwrap(), wanted);
    assert_eq!(
        registry.machine(machine("b", "m", "other", MachinePhase::Alive)),
        []
    );
}

#[test]
fn a_machine_that_a_new_list_does_not_name_is_gone_when_it_is_complete() {
    let mut registry = open();
    registry.cluster(applied("a", healthy()));
    let alive = |name| machine("a", name, name, MachinePhase::Alive);
    let machines = |nodes: &[&str]| -> Machines {
        let nodes = nodes.iter().map(|node| (*node, MachinePhase::Alive));
        nodes.collect()
    };
    let known = |registry: &mut Registry| registry.inputs("a").machines.unwrap();
    let joining = MachineFacts {
        namespace: "a".into(),
        name: "two".into(),
        node: None,
        phase: MachinePhase::Alive,
    };
    assert_eq!(registry.machine(Change::Applied(joining)), [update("a")]);
    assert_eq!(*known(&mut registry), machines(&[]), "it has no node yet");
    for name in ["two", "one", "three"] {
        assert_eq!(registry.machine(alive(name)), [update("a")]);
    }
    let all = machines(&["one", "two", "three"]);
    assert_eq!(*known(&mut registry), all);
    registry.machine(Change::Restarted);
    for name in ["one", "two"] {
        assert_eq!(registry.machine(alive(name)), []);
    }
    assert_eq!(*known(&mut registry), all, "half a list is no deletion");
    assert_eq!(registry.machine(Change::Synced), [update("a")]);
    assert_eq!(*known(&mut registry), machines(&["one", "two"]));
    for name in ["one", "two"] {
        let gone = Change::Deleted {
            namespace: "a".into(),
            name: name.into(),
        };
        assert_eq!(registry.machine(gone), [update("a")]);
    }
    assert_eq!(*known(&mut registry), machines(&[]));
}

#[test]
fn a_kind_that_appears_later_counts_once_it_is_listed() {
    let mut registry = Registry::new(false);
    registry.cluster(applied("a", healthy()));
    registry.cluster(Change::Synced);
    registry.secret(Way::Internal, Change::Synced);
    registry.machine_kind(false);
    registry.machine_kind(true);
    assert!(registry.inputs("a").machines.is_none(), "not listed yet");
    registry.machine(Change::Restarted);
    registry.machine(machine("a", "m", "node", MachinePhase::Alive));
    assert_eq!(registry.machine(Change::Synced), [update("a")]);
    assert!(registry.inputs("a").machines.is_some());
}

#[test]
fn the_same_conditions_stay_the_same_part() {
    let mut registry = open();
    let pools: PoolConditions = [("pool".to_owned(), vec!["Broken".to_owned()])].into();
    let shoot = ShootFacts {
        pools,
        node_monitor_grace: Some(Duration::from_secs(50)),
        ..healthy()
    };
    registry.cluster(applied("a", shoot.clone()));
    let before = registry.inputs("a");
    assert_eq!(before.grace, Some(Duration::from_secs(50)));
    registry.cluster(applied("a", shoot));
    assert!(Arc::ptr_eq(&before.pools, &registry.inputs("a").pools));
    registry.cluster(applied("a", healthy()));
    assert!(registry.inputs("a").pools.is_empty());
}

#[test]
fn a_cluster_without_a_probe_has_a_reason_and_unreadable_ones_are_counted_while_they_are_so() {
    let mut registry = open();
    let asleep = ShootFacts {
        hibernation: Hibernation::Wanted,
        ..healthy()
    };
    registry.cluster(applied("asleep", asleep));
    registry.cluster(applied("well", healthy()));
    registry.cluster(unreadable("odd", "no spec"));
    let why = |registry: &Registry, name| registry.why_unprobed(name);
    assert_eq!(why(&registry, "asleep").unwrap(), "it is hibernated");
    let odd = "its Shoot cannot be read: no spec";
    assert_eq!(why(&registry, "odd").unwrap(), odd);
    assert_eq!(why(&registry, "well"), None);
    assert_eq!(why(&registry, "unheard-of"), None);
    assert_eq!(registry.unreadable(), 1);
    registry.cluster(unreadable("odd", "no status"));
    assert_eq!(registry.unreadable(), 1, "not once more for each complaint");
    registry.cluster(applied("odd", healthy()));
    assert_eq!(registry.unreadable(), 0);
}
