//! Tests of the registry: watch events in, actions out.

use kelpie_config::{Strictness, prober};
use kelpie_core::prober::MachinePhase;
use kelpie_core::prober::shard::Revision;
use kelpie_kube::events::ObjectRef;
use secrecy::SecretSlice;

use super::*;
use crate::inputs::UsableKubeconfig;
use crate::inputs::tests::usable;
use crate::source::{ClusterLabels, ClusterSpec};

fn registry(has_external: bool) -> ClusterRegistry {
    ClusterRegistry::new(
        RegistrySettings {
            texts: TEXTS,
            has_external,
            has_machines: true,
            has_targets: true,
        },
        None,
    )
}

const TEXTS: SourceTexts = SourceTexts {
    clusters: "Clusters",
    deleted: "the Cluster was deleted",
    no_kubeconfig: "",
    no_such_cluster: "",
    list_command: "",
    rbac_file: "",
};

/// Returns the identity of a cluster. One in the form `namespace/name` shares its namespace.
fn identity(id: &str) -> ClusterIdentity {
    let namespace = id.split_once('/').map_or(id, |(namespace, _)| namespace);
    ClusterIdentity {
        id: id.into(),
        namespace: namespace.into(),
        object: ObjectRef::default(),
    }
}

/// Returns a registry that has listed everything, on a seed with the kind Machine.
fn synced() -> ClusterRegistry {
    let mut registry = registry(false);
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
        identity: identity(name),
        spec: Ok(spec),
        labels: ClusterLabels::default(),
    })
}

fn unreadable(name: &str, problem: &str) -> WatchEvent<ClusterObject> {
    WatchEvent::Apply(ClusterObject {
        identity: identity(name),
        spec: Err(problem.into()),
        labels: ClusterLabels::default(),
    })
}

fn kubeconfig(cluster: &str, text: Option<&str>) -> WatchEvent<ClusterKubeconfig> {
    let text = text.map(|text| SecretSlice::from(text.as_bytes().to_vec()));
    WatchEvent::Apply(ClusterKubeconfig {
        cluster: cluster.into(),
        text: text.ok_or("it is empty".into()),
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
    let mut registry = registry(true);
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
    let mut registry = registry(false);
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
        empty.access_or_previous().unwrap_err(),
        "the Secret contains no kubeconfig: it is empty"
    );
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("two")));
    registry.kubeconfig(ProbePath::Internal, WatchEvent::Init);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    assert!(
        registry.inputs("a").internal.is_some(),
        "the last one is kept"
    );
    assert_eq!(
        registry.kubeconfig(ProbePath::Internal, kubeconfig("stranger", Some("x"))),
        []
    );
}

fn used(registry: &mut ClusterRegistry) -> UsableKubeconfig {
    let kubeconfig = registry.inputs("a").internal.unwrap();
    kubeconfig.access_or_previous().unwrap()
}

#[test]
fn deleted_secret_keeps_working_credentials() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    let text = usable("one");
    let secret = || kubeconfig("a", Some(&text));
    registry.kubeconfig(ProbePath::Internal, secret());
    let before = used(&mut registry);
    let deleted = WatchEvent::Delete {
        namespace: "a".into(),
        name: "a".into(),
    };
    let actions = registry.kubeconfig(ProbePath::Internal, deleted);
    assert_eq!(actions, [update("a")], "the problem is reported");
    let after = used(&mut registry);
    assert_eq!(after.fingerprint, before.fingerprint);
    assert!(after.problem.unwrap().starts_with("Secret deleted"));

    // The same Secret comes back: nothing to connect anew for.
    registry.kubeconfig(ProbePath::Internal, secret());
    let again = used(&mut registry);
    assert_eq!(
        (again.fingerprint, again.problem),
        (before.fingerprint, None)
    );

    // A list without it is a deletion too.
    registry.kubeconfig(ProbePath::Internal, WatchEvent::Init);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    assert_eq!(used(&mut registry).fingerprint, before.fingerprint);

    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some(&usable("two"))));
    let new = used(&mut registry);
    assert_ne!(new.fingerprint, before.fingerprint);
    assert_eq!(new.problem, None);
}

#[test]
fn broken_secret_keeps_working_credentials() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some(&usable("one"))));
    let before = used(&mut registry);
    for broken in [Some("{"), None, Some("[")] {
        registry.kubeconfig(ProbePath::Internal, kubeconfig("a", broken));
        let after = used(&mut registry);
        assert_eq!(after.fingerprint, before.fingerprint, "{broken:?}");
        assert!(after.problem.is_some());
    }
}

#[test]
fn removed_cluster_loses_its_credentials() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("one")));
    let deleted = |namespace: &str| WatchEvent::Delete {
        namespace: namespace.into(),
        name: "a".into(),
    };
    registry.kubeconfig(ProbePath::Internal, deleted("a"));
    let gone = |namespace: &str| WatchEvent::Delete {
        namespace: namespace.into(),
        name: "a".into(),
    };
    assert!(is_stop(&registry.cluster(gone(""))));
    assert!(registry.inputs("a").internal.is_none());
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("one")));
    registry.kubeconfig(ProbePath::Internal, deleted("a"));
    assert!(registry.inputs("a").internal.is_none(), "no cluster");
}

#[test]
fn direct_read_reaches_the_probe_once() {
    let mut registry = synced();
    registry.cluster(applied("a", healthy()));
    registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("old")));
    let read = |registry: &mut ClusterRegistry, text| {
        let WatchEvent::Apply(found) = kubeconfig("a", text) else {
            panic!("not an object");
        };
        registry.kubeconfig_read(ProbePath::Internal, found)
    };
    assert_eq!(read(&mut registry, Some("old")), [], "nothing new");
    assert_eq!(read(&mut registry, None), [], "nothing usable");
    assert_eq!(read(&mut registry, Some("new")), [update("a")]);
    let later = registry.kubeconfig(ProbePath::Internal, kubeconfig("a", Some("new")));
    assert_eq!(later, [], "the watch has the same text");
}

/// Returns a registry with a cluster that waits for its optional inputs.
fn waiting() -> ClusterRegistry {
    let mut registry = registry(true);
    registry.cluster(applied("a", healthy()));
    registry.cluster(WatchEvent::InitDone);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    registry
}

fn forbidden() -> ApiError {
    ApiError::Forbidden("no".into())
}

fn unavailable() -> ApiError {
    ApiError::Unavailable("status 503".into())
}

#[test]
fn denied_optional_inputs_are_not_waited_for() {
    let (mut registry, now) = (waiting(), Instant::now());
    let external = OptionalInput::ExternalKubeconfigs;
    assert_eq!(registry.watch_failed(external, &forbidden(), now), []);
    let actions = registry.watch_failed(OptionalInput::Machines, &forbidden(), now);
    assert_eq!(actions, [start("a")]);
    assert!(OptionalInput::ALL.map(|input| registry.is_unavailable(input)) == [true; 2]);
    assert!(registry.inputs("a").machines.is_none(), "the rule is off");

    // Granted later.
    registry.machine_kind(true);
    registry.machine(WatchEvent::Init);
    assert!(registry.inputs("a").machines.is_none(), "not listed yet");
    assert_eq!(registry.machine(WatchEvent::InitDone), [update("a")]);
    assert!(registry.inputs("a").machines.is_some());
    registry.kubeconfig(ProbePath::External, WatchEvent::Init);
    registry.kubeconfig(ProbePath::External, WatchEvent::InitDone);
    assert!(OptionalInput::ALL.map(|input| registry.is_unavailable(input)) == [false; 2]);
}

#[test]
fn failing_optional_input_is_waited_for_briefly() {
    let (mut registry, begin) = (waiting(), Instant::now());
    registry.kubeconfig(ProbePath::External, WatchEvent::InitDone);
    let input = OptionalInput::Machines;
    for second in [0, 4, 9] {
        let now = begin + Duration::from_secs(second);
        assert_eq!(registry.watch_failed(input, &unavailable(), now), []);
        assert_eq!(registry.tick(now), []);
    }
    assert_eq!(registry.pending_lists(), ["Machines"]);
    let actions = registry.tick(begin + Duration::from_secs(10));
    assert_eq!(actions, [start("a")]);
}

#[test]
fn silent_optional_input_is_waited_for_briefly() {
    let (mut registry, begin) = (waiting(), Instant::now());
    registry.kubeconfig(ProbePath::External, WatchEvent::Init);
    let after = |seconds| begin + Duration::from_secs(seconds);
    registry.tick(begin);
    assert_eq!(registry.tick(after(30)), []);
    let pending = registry.pending_lists();
    assert_eq!(pending, ["external kubeconfig Secrets"], "its list goes on");
    let done = registry.kubeconfig(ProbePath::External, WatchEvent::InitDone);
    assert_eq!(done, [start("a")]);
}

#[test]
fn machines_are_not_current_while_their_watch_fails() {
    let (mut registry, begin) = (synced(), Instant::now());
    let is_current = |registry: &mut ClusterRegistry| registry.inputs("a").machines_current;
    let input = OptionalInput::Machines;
    registry.cluster(applied("a", healthy()));
    registry.machine(machine("a", "m", "node", MachinePhase::Alive));
    assert!(is_current(&mut registry));
    let actions = registry.watch_failed(input, &unavailable(), begin);
    assert_eq!(actions, [update("a")]);
    assert!(!is_current(&mut registry));
    assert!(registry.inputs("a").machines.is_some(), "the rule stays on");
    assert_eq!(registry.watch_failed(input, &unavailable(), begin), []);

    // An event shows that the watch works.
    let other = machine("b", "m", "other", MachinePhase::Alive);
    assert_eq!(registry.machine(other), [update("a")]);
    assert!(is_current(&mut registry));

    // A list counts when it is complete.
    registry.watch_failed(input, &unavailable(), begin);
    registry.machine(WatchEvent::Init);
    registry.machine(machine("a", "m", "node", MachinePhase::Alive));
    assert!(!is_current(&mut registry));
    registry.machine(WatchEvent::InitDone);
    assert!(is_current(&mut registry));

    // So does silence without an error.
    registry.watch_failed(input, &unavailable(), begin);
    registry.tick(begin + Duration::from_secs(89));
    assert!(!is_current(&mut registry));
    registry.tick(begin + Duration::from_secs(90));
    assert!(is_current(&mut registry));
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
    let mut registry = registry(false);
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

#[test]
fn second_cluster_of_a_namespace_waits_for_the_first() {
    let mut registry = synced();
    let start = |cluster: &str| ProbeAction::Start {
        cluster: cluster.into(),
    };
    assert_eq!(
        registry.cluster(applied("ns/a", healthy())),
        [start("ns/a")]
    );
    assert_eq!(registry.cluster(applied("ns/b", healthy())), []);
    let reason = registry.unprobed_reason("ns/b").unwrap();
    assert!(reason.starts_with("another cluster"), "{reason}");
    assert_eq!(registry.unprobed_reason("ns/a"), None);
    let removed = registry.cluster(applied("ns/a", with(Eligibility::Remove("it is paused"))));
    let stop = ProbeAction::Stop {
        cluster: "ns/a".into(),
        reason: "it is paused".into(),
    };
    assert_eq!(removed, [stop, start("ns/b")]);
}

#[test]
fn clusters_without_targets_share_a_namespace() {
    let mut registry = synced();
    registry.settings.has_targets = false;
    for cluster in ["ns/a", "ns/b"] {
        let actions = registry.cluster(applied(cluster, healthy()));
        assert!(matches!(actions[..], [ProbeAction::Start { .. }]));
    }
}

#[test]
fn source_without_machines_is_not_waited_for() {
    let mut registry = registry(false);
    registry.settings.has_machines = false;
    registry.kubeconfig(ProbePath::Internal, WatchEvent::Init);
    registry.kubeconfig(ProbePath::Internal, WatchEvent::InitDone);
    registry.cluster(WatchEvent::Init);
    registry.cluster(WatchEvent::InitDone);
    assert!(registry.has_synced());
    assert!(!registry.is_unavailable(OptionalInput::Machines));
    assert_eq!(registry.inputs("a").machines, None);
}

fn labelled(name: &str, shard: &str, version: u64) -> WatchEvent<ClusterObject> {
    let labels = [("shard".to_owned(), shard.to_owned())];
    WatchEvent::Apply(ClusterObject {
        identity: identity(name),
        spec: Ok(healthy()),
        labels: ClusterLabels {
            labels: labels.into(),
            revision: Revision::parse(&version.to_string()),
        },
    })
}

/// Returns a synced registry of the shard `a`, whose clusters have the label `shard=a`.
fn sharded() -> ClusterRegistry {
    let selector = prober::parse_selector(r#"{"matchLabels":{"shard":"a"}}"#).unwrap();
    let name = "a".to_owned();
    ClusterRegistry {
        shards: Some(ShardClusters::new(&ShardConfig { name, selector })),
        ..synced()
    }
}

fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

/// Processes an event as the manager does.
fn process(registry: &mut ClusterRegistry, event: WatchEvent<ClusterObject>) -> Vec<ProbeAction> {
    let changed = match &event {
        WatchEvent::Apply(object) => Some(object.identity.id.to_string()),
        _ => None,
    };
    let mut actions = registry.cluster(event);
    actions.extend(registry.assign(changed, |_| false, at(0)));
    actions
}

#[test]
fn cluster_of_another_shard_gets_no_probe() {
    let mut registry = sharded();
    assert_eq!(process(&mut registry, labelled("one", "b", 1)), []);
    assert_eq!(
        process(&mut registry, labelled("two", "a", 2)),
        [start("two")]
    );
    let reason = registry.unprobed_reason("one").unwrap();
    assert_eq!(reason, "no live shard selects its labels");
}

#[test]
fn cluster_that_left_is_probed_until_the_limit() {
    let mut registry = sharded();
    process(&mut registry, labelled("one", "a", 1));
    let update = ProbeAction::Update {
        cluster: "one".into(),
    };
    let actions = process(&mut registry, labelled("one", "b", 2));
    assert_eq!(actions, [update]);
    let limit = 2 * 60;
    assert_eq!(registry.assign(None, |_| false, at(limit - 1)), []);
    let stopped = ProbeAction::Stop {
        cluster: "one".into(),
        reason: MOVED.into(),
    };
    // A record on the leader Lease that came after the move delays nothing.
    assert_eq!(registry.assign(None, |_| true, at(limit)), [stopped]);
    assert_eq!(
        process(&mut registry, labelled("one", "a", 3)),
        [start("one")]
    );
}

#[test]
fn drained_cluster_loses_both_labels() {
    let label = "shard.alpha.sharding.timebertt.dev/ring";
    let file = format!(
        "{{name: a, kubeConfigSecretName: a, guard: {{}}, clusterSelector: {{matchLabels: \
         {{{label}: kelpie-shard-a}}}}}}"
    );
    let config = prober::parse(file.as_bytes(), Strictness::Strict).unwrap();
    let mut clusters = ShardClusters::new(&config.value.shard.unwrap());
    let drain = "drain.alpha.sharding.timebertt.dev/ring".to_owned();
    let labels = [
        (label.to_owned(), "kelpie-shard-a".to_owned()),
        (drain, "true".to_owned()),
    ];
    let labels = ClusterLabels {
        labels: labels.into(),
        revision: Revision::parse("7"),
    };
    clusters.applied("one", labels);
    clusters.assign("one", false, at(0));
    assert_eq!(
        clusters.drained().count(),
        0,
        "only the owner gives it away"
    );
    for seconds in [0, 8, 15] {
        clusters.observe_own(at(seconds));
    }
    clusters.assign("one", false, at(15));
    let drained: Vec<_> = clusters.drained().collect();
    let patch = serde_json::json!({ "metadata": { "resourceVersion": "7", "labels": {
        label: null, "drain.alpha.sharding.timebertt.dev/ring": null } } });
    assert_eq!(drained, [("one", patch)]);
}
