//! Tests of the registry: watch events in, actions out.

use kelpie_core::prober::MachinePhase;
use secrecy::SecretSlice;

use super::*;
use crate::source::ClusterSpec;

/// Returns a registry that has listed everything, on a seed with the kind Machine.
fn synced() -> ClusterRegistry {
    let mut registry = ClusterRegistry::new(false);
    let mut actions = registry.machine_kind(true);
    actions.extend(registry.machine(WatchEvent::Init));
    actions.extend(registry.machine(WatchEvent::InitDone));
    actions.extend(registry.kubeconfig(ProbePath::Internal, WatchEvent::Init));
    actions.extend(registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone));
    actions.extend(registry.cluster(WatchEvent::Init));
    actions.extend(registry.cluster(WatchEvent::InitDone));
    assert_eq!(actions, []);
    assert!(registry.pending_lists().is_empty());
    registry
}

fn healthy() -> ClusterSpec {
    ClusterSpec {
        eligibility: Eligibility::Run,
        grace: None,
        pools: PoolConditions::new(),
    }
}

fn with(eligibility: Eligibility) -> ClusterSpec {
    ClusterSpec {
        eligibility,
        ..healthy()
    }
}

fn applied(name: &str, spec: ClusterSpec) -> WatchEvent<ClusterObject> {
    WatchEvent::Apply(ClusterObject {
        name: name.into(),
        spec: Ok(spec),
    })
}

fn unreadable(name: &str, problem: &str) -> WatchEvent<ClusterObject> {
    WatchEvent::Apply(ClusterObject {
        name: name.into(),
        spec: Err(problem.into()),
    })
}

fn kubeconfig(cluster: &str, text: Option<&str>) -> WatchEvent<ClusterKubeconfig> {
    let text = text.map(|text| SecretSlice::from(text.as_bytes().to_vec()));
    WatchEvent::Apply(ClusterKubeconfig {
        cluster: cluster.into(),
        text: text.ok_or("it is empty"),
    })
}

fn machine(
    cluster: &str,
    name: &str,
    node: &str,
    phase: MachinePhase,
) -> WatchEvent<ClusterMachine> {
    WatchEvent::Apply(ClusterMachine {
        cluster: cluster.into(),
        name: name.into(),
        node: Some(node.into()),
        phase,
    })
}

fn start(cluster: &str) -> ProbeAction {
    let cluster = cluster.into();
    ProbeAction::Start { cluster }
}

fn update(cluster: &str) -> ProbeAction {
    let cluster = cluster.into();
    ProbeAction::Update { cluster }
}

fn is_stop(actions: &[ProbeAction]) -> bool {
    matches!(actions, [ProbeAction::Stop { .. }])
}

#[test]
fn no_probe_starts_before_all_lists() {
    let mut registry = ClusterRegistry::new(true);
    let mut actions = registry.cluster(WatchEvent::Init);
    actions.extend(registry.cluster(applied("a", healthy())));
    actions.extend(registry.cluster(WatchEvent::InitDone));
    actions.extend(registry.kubeconfig(ProbePath::Internal, WatchEvent::Init));
    actions.extend(registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone));
    actions.extend(registry.machine_kind(true));
    assert_eq!(
        registry.pending_lists(),
        ["external kubeconfig Secrets", "Machines"]
    );
    actions.extend(registry.kubeconfig(ProbePath::External, WatchEvent::Init));
    actions.extend(registry.kubeconfig(ProbePath::External, WatchEvent::InitDone));
    assert_eq!(actions, [], "the machines are missing");
    assert_eq!(registry.machine(WatchEvent::Init), []);
    assert_eq!(registry.machine(WatchEvent::InitDone), [start("a")]);
}

#[test]
fn absent_machine_kind_is_not_waited_for() {
    let mut registry = ClusterRegistry::new(false);
    registry.cluster(applied("a", healthy()));
    registry.cluster(WatchEvent::InitDone);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    assert_eq!(registry.machine_kind(false), [start("a")]);
    assert!(registry.inputs("a").machines.is_none(), "the rule is off");
}

#[test]
fn probe_starts_once_and_is_removed() {
    let mut registry = synced();
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    assert_eq!(registry.cluster(applied("a", healthy())), [update("a")]);
    let hibernated = with(Eligibility::Remove("it is hibernated"));
    assert!(is_stop(&registry.cluster(applied("a", hibernated.clone()))));
    assert_eq!(registry.cluster(applied("a", hibernated)), []);
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    let gone = WatchEvent::Delete {
        namespace: String::new(),
        name: "a".into(),
    };
    assert!(is_stop(&registry.cluster(gone)));
}

#[test]
fn not_yet_eligible_keeps_running_probe() {
    let mut registry = synced();
    let restoring = with(Eligibility::NotYet("its restoration has not succeeded"));
    assert_eq!(registry.cluster(applied("a", restoring.clone())), []);
    assert_eq!(registry.cluster(applied("a", healthy())), [start("a")]);
    assert_eq!(registry.cluster(applied("a", restoring)), [update("a")]);
}

#[test]
fn unreadable_cluster_keeps_probe_and_is_reported_once() {
    let mut registry = synced();
    let report = |problem: &str| ProbeAction::ReportUnreadable {
        cluster: "a".into(),
        problem: problem.into(),
    };
    registry.cluster(applied("a", healthy()));
    let actions = registry.cluster(unreadable("a", "no"));
    assert_eq!(actions, [update("a"), report("no")]);
    assert_eq!(registry.cluster(unreadable("a", "no")), [update("a")]);
    assert_eq!(registry.cluster(unreadable("b", "no")).len(), 1, "no probe");
    assert_eq!(registry.cluster(applied("b", healthy())), [start("b")]);
}

#[test]
fn complete_list_without_cluster_stops_its_probe() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    registry.cluster(applied("b", healthy()));
    assert_eq!(registry.cluster(WatchEvent::Init), []);
    assert_eq!(registry.cluster(applied("b", healthy())), [update("b")]);
    let actions = registry.cluster(WatchEvent::InitDone);
    assert!(is_stop(&actions), "{actions:?}");
}

#[test]
fn kubeconfig_changes_reach_the_probe() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    let actions = registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("one")));
    assert_eq!(actions, [update("a")]);
    assert!(registry.inputs("a").internal.is_some());
    let before = registry.inputs("a").internal.unwrap();
    let again = registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("one")));
    assert_eq!(again, [], "the same bytes");
    assert!(Arc::ptr_eq(
        &before,
        &registry.inputs("a").internal.unwrap()
    ));
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", None));
    let empty = registry.inputs("a").internal.unwrap();
    assert_eq!(
        empty.access().unwrap_err(),
        "the Secret contains no kubeconfig: it is empty"
    );
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("two")));
    registry.kubeconfig(ProbePath::Internal, WatchEvent::Init);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    assert!(registry.inputs("a").internal.is_none());
    assert_eq!(
        registry.kubeconfig(ProbePath::Internal, kubeconfig("stranger", Some("x"))),
        []
    );
}

#[test]
fn changed_machine_updates_probe_of_its_cluster() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    let alive = || machine("a", "m", "node", MachinePhase::Alive);
    assert_eq!(registry.machine(alive()), [update("a")]);
    let before = registry.inputs("a").machines.unwrap();
    assert_eq!(registry.machine(alive()), [], "no used field changed");
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
fn complete_list_without_machine_removes_it() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    let alive = |name| machine("a", name, name, MachinePhase::Alive);
    let machines = |nodes: &[&str]| -> Machines {
        let nodes = nodes.iter().map(|node| (*node, MachinePhase::Alive));
        nodes.collect()
    };
    let known = |registry: &mut ClusterRegistry| registry.inputs("a").machines.unwrap();
    let joining = ClusterMachine {
        cluster: "a".into(),
        name: "two".into(),
        node: None,
        phase: MachinePhase::Alive,
    };
    assert_eq!(registry.machine(WatchEvent::Apply(joining)), [update("a")]);
    assert_eq!(*known(&mut registry), machines(&[]), "it has no node yet");
    for name in ["two", "one", "three"] {
        assert_eq!(registry.machine(alive(name)), [update("a")]);
    }
    let all = machines(&["one", "two", "three"]);
    assert_eq!(*known(&mut registry), all);
    registry.machine(WatchEvent::Init);
    for name in ["one", "two"] {
        assert_eq!(registry.machine(alive(name)), []);
    }
    assert_eq!(
        *known(&mut registry),
        all,
        "an incomplete list removes nothing"
    );
    assert_eq!(registry.machine(WatchEvent::InitDone), [update("a")]);
    assert_eq!(*known(&mut registry), machines(&["one", "two"]));
    for name in ["one", "two"] {
        let gone = WatchEvent::Delete {
            namespace: "a".into(),
            name: name.into(),
        };
        assert_eq!(registry.machine(gone), [update("a")]);
    }
    assert_eq!(*known(&mut registry), machines(&[]));
}

#[test]
fn machine_kind_added_later_counts_once_listed() {
    let mut registry = ClusterRegistry::new(false);
    registry.cluster(applied("a", healthy()));
    registry.cluster(WatchEvent::InitDone);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    registry.machine_kind(false);
    registry.machine_kind(true);
    assert!(registry.inputs("a").machines.is_none(), "not listed yet");
    registry.machine(WatchEvent::Init);
    registry.machine(machine("a", "m", "node", MachinePhase::Alive));
    assert_eq!(registry.machine(WatchEvent::InitDone), [update("a")]);
    assert!(registry.inputs("a").machines.is_some());
}

#[test]
fn equal_conditions_keep_their_pointer() {
    let mut registry = synced();
    let pools: PoolConditions = [("pool".to_owned(), vec!["Broken".to_owned()])].into();
    let spec = ClusterSpec {
        pools,
        grace: Some(Duration::from_secs(50)),
        ..healthy()
    };
    registry.cluster(applied("a", spec.clone()));
    let before = registry.inputs("a");
    assert_eq!(before.grace, Some(Duration::from_secs(50)));
    registry.cluster(applied("a", spec));
    assert!(Arc::ptr_eq(&before.pools, &registry.inputs("a").pools));
    registry.cluster(applied("a", healthy()));
    assert!(registry.inputs("a").pools.is_empty());
}

#[test]
fn unprobed_cluster_has_a_reason() {
    let mut registry = synced();
    let hibernated = with(Eligibility::Remove("it is hibernated"));
    registry.cluster(applied("hibernated", hibernated));
    registry.cluster(applied("healthy", healthy()));
    registry.cluster(unreadable("odd", "no spec"));
    let reason = |registry: &ClusterRegistry, name| registry.unprobed_reason(name);
    assert_eq!(reason(&registry, "hibernated").unwrap(), "it is hibernated");
    let unreadable_reason = "its object cannot be read: no spec";
    assert_eq!(reason(&registry, "odd").unwrap(), unreadable_reason);
    assert_eq!(reason(&registry, "healthy"), None);
    assert_eq!(reason(&registry, "unknown"), None);
    assert_eq!(registry.unreadable_count(), 1);
    registry.cluster(unreadable("odd", "no status"));
    assert_eq!(
        registry.unreadable_count(),
        1,
        "counted once, whatever its problem"
    );
    registry.cluster(applied("odd", healthy()));
    assert_eq!(registry.unreadable_count(), 0);
}
