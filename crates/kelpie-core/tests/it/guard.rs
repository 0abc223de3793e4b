//! The guard of a cluster, with a model of its API server and of kube-controller-manager.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::Node;
use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::guard::{
    GroupHold, GroupKind, GuardCall, GuardContent, GuardReply, GuardRole, GuardSettings,
    GuardState, HeldGroup, NodeGuard, PermitJudge, Permits, StoredBinding, StoredPolicy,
};
use proptest::prelude::*;

use crate::evaluator_fixture::{EvaluatorFixture, at, name, settings};

const GRACE: f64 = 40.0;
const RENEWAL: f64 = 10.0;
/// The time between two steps of the model.
const STEP: f64 = 0.25;
/// A change of the policy is enforced after this time.
const LAG: f64 = 1.5;
/// kube-controller-manager looks at the nodes this often.
const MONITOR_PERIOD: f64 = 5.0;

fn seconds(time: Time) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn no_permits() -> Permits {
    Permits::from_iter(Vec::<String>::new())
}

/// The policy and the binding, as stored or as enforced.
#[derive(Clone, Debug, Default)]
struct GuardObjects {
    policy: Option<(u64, Option<GuardContent>)>,
    binding: Option<(u64, bool)>,
}

impl GuardObjects {
    fn content(&self) -> Option<&GuardContent> {
        let is_bound = self.binding.is_some_and(|(_, is_intact)| is_intact);
        let content = self
            .policy
            .as_ref()
            .and_then(|(_, content)| content.as_ref());
        content.filter(|_| is_bound)
    }
}

/// The guard's objects in an API server.
#[derive(Default)]
struct ApiServer {
    stored: GuardObjects,
    /// The objects with the instant from which they are enforced.
    history: Vec<(f64, GuardObjects)>,
    last_version: u64,
    writes: usize,
    conflicts: usize,
}

impl ApiServer {
    fn change(&mut self, now: f64, change: impl FnOnce(&mut GuardObjects, u64)) {
        self.last_version += 1;
        change(&mut self.stored, self.last_version);
        self.history.push((now + LAG, self.stored.clone()));
    }

    fn enforced(&self, now: f64) -> Option<&GuardContent> {
        let past = self.history.iter().rev().find(|(at, _)| *at <= now);
        past.and_then(|(_, objects)| objects.content())
    }

    /// Returns whether kube-controller-manager may turn a node Unknown.
    fn allows(&self, node: &str, now: f64) -> bool {
        self.enforced(now)
            .is_none_or(|content| content.permits.contains(node) || seconds(content.until) <= now)
    }

    fn reply(&mut self, call: &GuardCall, now: f64) -> GuardReply {
        let version = |version: u64| ResourceVersion::new(&version.to_string());
        let matches = |stored: Option<u64>, replaces: &Option<ResourceVersion>| {
            stored.map(version) == *replaces
        };
        match call {
            GuardCall::ReadPolicy => {
                let policy = self.stored.policy.clone();
                GuardReply::Policy(policy.map(|(number, content)| StoredPolicy {
                    version: version(number),
                    owner: "us".into(),
                    content,
                }))
            }
            GuardCall::ReadBinding => {
                let binding = self.stored.binding;
                GuardReply::Binding(binding.map(|(number, is_intact)| StoredBinding {
                    version: version(number),
                    is_intact,
                }))
            }
            GuardCall::WritePolicy { content, replaces } => {
                let stored = self.stored.policy.as_ref().map(|(number, _)| *number);
                if !matches(stored, replaces) {
                    self.conflicts += 1;
                    return GuardReply::Conflict;
                }
                self.writes += 1;
                let content = content.clone();
                self.change(now, |objects, number| {
                    objects.policy = Some((number, Some(content)));
                });
                GuardReply::Written(version(self.last_version))
            }
            GuardCall::WriteBinding { replaces } => {
                let stored = self.stored.binding.map(|(number, _)| number);
                if !matches(stored, replaces) {
                    self.conflicts += 1;
                    return GuardReply::Conflict;
                }
                self.change(now, |objects, number| {
                    objects.binding = Some((number, true));
                });
                GuardReply::Written(version(self.last_version))
            }
            GuardCall::AskEnforced => {
                GuardReply::Enforced(self.enforced(now).map(GuardContent::mark))
            }
            GuardCall::Remove => {
                self.change(now, |objects, _| *objects = GuardObjects::default());
                GuardReply::Removed
            }
        }
    }
}

#[derive(Clone, Debug)]
struct ModelNode {
    /// The kubelet renews at this offset within the renewal period.
    offset: f64,
    renewed: f64,
    dies_at: f64,
    /// The intervals in which the node cannot reach the API server.
    cuts: Vec<(f64, f64)>,
    unknown_at: Option<f64>,
}

impl ModelNode {
    fn run(&mut self, now: f64) {
        let due = ((now - self.offset) / RENEWAL).floor() * RENEWAL + self.offset;
        let is_cut = self
            .cuts
            .iter()
            .any(|(from, to)| (*from..*to).contains(&now));
        if now < self.dies_at && !is_cut && due > self.renewed {
            self.renewed = now;
            self.unknown_at = None;
        }
    }
}

/// One replica of the prober.
struct ModelReplica {
    fixture: EvaluatorFixture,
    judge: PermitJudge,
    guard: NodeGuard,
    role: GuardRole,
    next_look: f64,
    dies_at: f64,
    states: Vec<(f64, GuardState)>,
    held: Vec<HeldGroup>,
}

impl ModelReplica {
    fn new(role: GuardRole, guard: &GuardSettings, first_look: f64) -> Self {
        Self {
            fixture: EvaluatorFixture::new(settings(), at(first_look)),
            judge: PermitJudge::new(guard),
            guard: NodeGuard::new(guard.clone(), "us"),
            role,
            next_look: first_look,
            dies_at: f64::MAX,
            states: Vec::new(),
            held: Vec::new(),
        }
    }

    fn run(&mut self, now: f64, leases: &[(String, Time)], api: &mut ApiServer) {
        if now >= self.dies_at {
            return;
        }
        if now >= self.next_look {
            let decision = self.fixture.round(at(now), leases);
            self.next_look = seconds(decision.next_wake.at).max(now + STEP);
            if let Some(judgement) = self.judge.judge(&self.fixture.evaluator, at(now)) {
                let until = at(now + GRACE / 2.0);
                self.guard
                    .permit(judgement.permits, at(now), until, at(now));
                self.held = judgement.held;
            }
        }
        for _ in 0..10 {
            let Some(call) = self.guard.poll(self.role, at(now)) else {
                break;
            };
            let reply = api.reply(&call, now);
            self.guard.reply(&call, reply, at(now));
        }
        let state = self.guard.state(at(now));
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((now, state));
        }
    }
}

struct GuardedCluster {
    now: f64,
    nodes: Vec<ModelNode>,
    replicas: Vec<ModelReplica>,
    api: ApiServer,
    ends: Vec<f64>,
}

impl GuardedCluster {
    fn new(nodes: usize, replicas: usize) -> Self {
        Self::with_settings(nodes, replicas, &GuardSettings::default())
    }

    /// Returns a cluster of three zones, each a pool too.
    fn with_zones(nodes: usize, guard: &GuardSettings) -> Self {
        let mut cluster = Self::with_settings(nodes, 1, guard);
        cluster.replicas[0].fixture.node = node_in_zone;
        cluster
    }

    fn with_settings(nodes: usize, replicas: usize, guard: &GuardSettings) -> Self {
        let role = |index| match index {
            0 => GuardRole::Leader,
            _ => GuardRole::Standby,
        };
        Self {
            now: 0.0,
            nodes: (0..nodes)
                .map(|index| ModelNode {
                    offset: RENEWAL * index as f64 / nodes as f64,
                    renewed: -RENEWAL,
                    dies_at: f64::MAX,
                    cuts: Vec::new(),
                    unknown_at: None,
                })
                .collect(),
            replicas: (0..replicas)
                .map(|index| ModelReplica::new(role(index), guard, index as f64 * 3.0))
                .collect(),
            api: ApiServer::default(),
            ends: Vec::new(),
        }
    }

    fn cut(&mut self, from: f64, to: f64) {
        for node in &mut self.nodes {
            node.cuts.push((from, to));
        }
    }

    fn run(&mut self, end: f64) {
        while self.now < end {
            let now = self.now;
            for node in &mut self.nodes {
                node.run(now);
            }
            let leases: Vec<_> = (self.nodes.iter().enumerate())
                .map(|(index, node)| (name(index), at(node.renewed)))
                .collect();
            for replica in &mut self.replicas {
                replica.run(now, &leases, &mut self.api);
            }
            if let Some(content) = self.api.stored.content() {
                self.ends.push(seconds(content.until));
            }
            if now % MONITOR_PERIOD == 0.0 {
                for (index, node) in self.nodes.iter_mut().enumerate() {
                    let is_silent = now - node.renewed > GRACE;
                    if is_silent && self.api.allows(&name(index), now) {
                        node.unknown_at.get_or_insert(now);
                    }
                }
            }
            self.now += STEP;
        }
    }

    fn unknown(&self) -> usize {
        let unknown = |node: &&ModelNode| node.unknown_at.is_some();
        self.nodes.iter().filter(unknown).count()
    }

    fn state(&self) -> GuardState {
        self.replicas[0].guard.state(at(self.now))
    }

    fn is_armed(&self) -> bool {
        matches!(self.state(), GuardState::Armed { .. })
    }
}

/// Nodes 0, 3, 6, ... are in zone and pool a, nodes 1, 4, 7, ... in b, the others in c.
fn node_in_zone(name: String) -> Node {
    let index: usize = name.trim_start_matches("node-").parse().unwrap();
    let group = ["a", "b", "c"][index % 3];
    Node {
        name,
        zone: Some(group.into()),
        pool: Some(group.into()),
        ..Node::default()
    }
}

#[test]
fn guard_is_armed_and_renewed() {
    let mut cluster = GuardedCluster::new(5, 1);
    cluster.run(60.0);
    assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
    let writes = cluster.api.writes;
    cluster.run(660.0);
    assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
    assert_eq!(cluster.api.writes - writes, 15, "one in 40 s");
    assert_eq!(cluster.api.conflicts, 0);
    assert_eq!(cluster.unknown(), 0);
}

#[test]
fn partition_loses_no_node() {
    for nodes in [2, 3, 20] {
        let mut cluster = GuardedCluster::new(nodes, 1);
        cluster.cut(100.0, 400.0);
        cluster.run(600.0);
        assert_eq!(cluster.unknown(), 0, "{nodes} nodes");
        assert!(cluster.is_armed());
    }
}

#[test]
fn guard_without_watchdog_runs_out() {
    let mut cluster = GuardedCluster::new(5, 1);
    cluster.replicas[0].dies_at = 100.0;
    cluster.cut(100.0, 500.0);
    cluster.run(180.0);
    assert_eq!(cluster.unknown(), 0, "up to its end");
    cluster.run(240.0);
    assert_eq!(cluster.unknown(), 5, "afterwards");
}

#[test]
fn node_that_dies_alone_is_permitted() {
    for nodes in [1, 2, 3, 20] {
        let mut cluster = GuardedCluster::new(nodes, 1);
        cluster.nodes[0].dies_at = 101.0;
        cluster.run(600.0);
        let found = cluster.nodes[0].unknown_at.unwrap();
        let renewed = cluster.nodes[0].renewed;
        let earliest = ((renewed + GRACE) / MONITOR_PERIOD).floor() * MONITOR_PERIOD + 5.0;
        assert!(found <= earliest, "{nodes} nodes: {found} > {earliest}");
        assert_eq!(cluster.unknown(), 1);
        let stored = cluster.api.stored.content().unwrap();
        assert_eq!(stored.permits, [name(0)].into_iter().collect::<Permits>());
    }
}

#[test]
fn permit_ends_when_the_node_renews() {
    let mut cluster = GuardedCluster::new(5, 1);
    cluster.nodes[0].cuts.push((100.0, 300.0));
    cluster.run(290.0);
    assert_eq!(cluster.unknown(), 1);
    cluster.run(330.0);
    assert_eq!(cluster.unknown(), 0);
    let stored = cluster.api.stored.content().unwrap();
    assert_eq!(stored.permits, no_permits());
}

#[test]
fn silent_node_is_permitted_a_grace_period_after_the_trip() {
    let mut cluster = GuardedCluster::new(10, 1);
    cluster.cut(100.0, 200.0);
    cluster.nodes[0].cuts = vec![(100.0, 1_000.0)];
    cluster.run(600.0);
    let found = cluster.nodes[0].unknown_at.unwrap();
    assert!((240.0..275.0).contains(&found), "{found}");
    assert_eq!(cluster.unknown(), 1);
}

#[test]
fn standby_takes_over_from_a_dead_leader() {
    let mut cluster = GuardedCluster::new(5, 2);
    cluster.replicas[0].dies_at = 200.0;
    cluster.cut(190.0, 600.0);
    cluster.run(700.0);
    assert_eq!(cluster.unknown(), 0);
    assert_eq!(cluster.api.conflicts, 0);
}

#[test]
fn two_replicas_write_no_more_than_one() {
    let mut cluster = GuardedCluster::new(5, 2);
    cluster.run(660.0);
    assert!(cluster.api.writes <= 18, "{}", cluster.api.writes);
    assert_eq!(cluster.api.conflicts, 0);
}

#[test]
fn refusals_are_retried_seldom() {
    for reply in [GuardReply::Refused, GuardReply::Unsupported] {
        let mut guard = NodeGuard::new(GuardSettings::default(), "us");
        let mut calls = 0;
        for second in 0..600 {
            let now = at(f64::from(second));
            guard.permit(no_permits(), now, now.after(Duration::from_secs(20)), now);
            if let Some(call) = guard.poll(GuardRole::Leader, now) {
                calls += 1;
                guard.reply(&call, reply.clone(), now);
            }
        }
        assert_eq!(calls, 2);
        let expected = match reply {
            GuardReply::Refused => GuardState::Refused,
            _ => GuardState::Unsupported,
        };
        assert_eq!(guard.state(at(600.0)), expected);
        guard.credentials_changed();
        assert!(guard.poll(GuardRole::Leader, at(600.0)).is_some());
    }
}

const FIVE_MINUTES: GroupHold = GroupHold {
    hold: Duration::from_mins(5),
    min_nodes: 3,
};

/// Settings that hold silent zones, and settings that hold silent pools.
fn group_settings() -> [(GroupKind, GuardSettings); 2] {
    let default = GuardSettings::default;
    let zone = GuardSettings {
        zone: FIVE_MINUTES,
        ..default()
    };
    let pool = GuardSettings {
        pool: FIVE_MINUTES,
        ..default()
    };
    [(GroupKind::Zone, zone), (GroupKind::Pool, pool)]
}

fn cut_zone_a(cluster: &mut GuardedCluster, from: f64) {
    for node in cluster.nodes.iter_mut().step_by(3) {
        node.cuts.push((from, f64::MAX));
    }
}

#[test]
fn silent_group_is_held_for_a_while() {
    for (kind, guard) in group_settings() {
        let mut cluster = GuardedCluster::with_zones(12, &guard);
        cut_zone_a(&mut cluster, 100.0);
        cluster.run(200.0);
        let held = &cluster.replicas[0].held;
        assert_eq!(held.len(), 1);
        assert_eq!((held[0].kind, held[0].name.as_str()), (kind, "a"));
        let until = seconds(held[0].until);
        assert!((420.0..435.0).contains(&until), "{until}");
        cluster.run(until);
        assert_eq!(cluster.unknown(), 0, "{kind:?}");
        cluster.run(until + 15.0);
        assert_eq!(cluster.unknown(), 4, "{kind:?}");
        assert!(cluster.replicas[0].held.is_empty());
    }
}

#[test]
fn silent_zone_is_not_held_by_default() {
    let mut cluster = GuardedCluster::with_zones(12, &GuardSettings::default());
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(150.0);
    assert_eq!(cluster.unknown(), 4);
}

#[test]
fn restart_does_not_prolong_a_hold() {
    let [(_, guard), _] = group_settings();
    let mut cluster = GuardedCluster::with_zones(12, &guard);
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(300.0);
    cluster.replicas[0] = ModelReplica::new(GuardRole::Leader, &guard, 300.0);
    cluster.replicas[0].fixture.node = node_in_zone;
    cluster.run(420.0);
    assert_eq!(cluster.unknown(), 0);
    cluster.run(450.0);
    assert_eq!(cluster.unknown(), 4);
}

#[test]
fn nodes_that_die_one_after_the_other_are_not_held() {
    let [(_, guard), _] = group_settings();
    let mut cluster = GuardedCluster::with_zones(9, &guard);
    for (index, dies_at) in [(0, 101.0), (3, 201.0)] {
        cluster.nodes[index].dies_at = dies_at;
    }
    cluster.run(400.0);
    for index in [0, 3] {
        let node = &cluster.nodes[index];
        let after = node.unknown_at.unwrap() - node.renewed;
        assert!(after <= GRACE + MONITOR_PERIOD, "{index}: {after}");
    }
}

#[test]
fn small_zone_is_not_held() {
    let [(_, guard), _] = group_settings();
    let mut cluster = GuardedCluster::with_zones(6, &guard);
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(150.0);
    assert_eq!(cluster.unknown(), 2);
}

/// A change of the guard's objects by another client.
#[derive(Clone, Copy, Debug)]
enum Edit {
    DeletePolicy,
    AlterPolicy,
    DeleteBinding,
    AlterBinding,
    EndInAnHour,
    PermitAll,
}

impl Edit {
    fn apply(self, api: &mut ApiServer, now: f64) {
        api.change(now, |objects, number| match (self, &mut objects.policy) {
            (Self::DeletePolicy, policy) => *policy = None,
            (Self::AlterPolicy, Some(policy)) => *policy = (number, None),
            (Self::EndInAnHour, Some((version, Some(content)))) => {
                *version = number;
                content.until = at(now + 3_600.0);
            }
            (Self::PermitAll, Some((version, Some(content)))) => {
                *version = number;
                content.permits = Permits::ALL;
            }
            (Self::DeleteBinding, _) => objects.binding = None,
            (Self::AlterBinding, _) => objects.binding = Some((number, false)),
            _ => {}
        });
    }
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::DeletePolicy),
        Just(Edit::AlterPolicy),
        Just(Edit::DeleteBinding),
        Just(Edit::AlterBinding),
        Just(Edit::EndInAnHour),
        Just(Edit::PermitAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn edits_are_repaired_in_30_s(
        edits in prop::collection::vec((any_edit(), 5.0..60.0_f64), 1..6),
        replicas in 1_usize..3,
    ) {
        let mut cluster = GuardedCluster::new(4, replicas);
        cluster.run(60.0);
        let mut edited_at = 0.0;
        for (edit, pause) in edits {
            edited_at = cluster.now;
            edit.apply(&mut cluster.api, cluster.now);
            let next = (cluster.now + pause).floor();
            cluster.run(next);
        }
        cluster.run(edited_at + 30.0);
        let content = cluster.api.stored.content();
        prop_assert!(content.is_some(), "{:?}", cluster.replicas[0].states);
        let is_ours = content.is_some_and(|content| {
            seconds(content.until) <= cluster.now + 240.0 && content.permits == no_permits()
        });
        prop_assert!(is_ours);
        prop_assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
    }

    #[test]
    fn partition_loses_no_node_whatever_came_before(
        nodes in 2_usize..8,
        replicas in 1_usize..3,
        deaths in prop::collection::vec((0_usize..8, 60.0..150.0_f64), 0..2),
        cut_at in 150.0..200.0_f64,
        length in 30.0..200.0_f64,
        kills_leader in any::<bool>(),
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        for (index, dies_at) in deaths {
            // Half of the nodes stay: a cluster that loses most of them trips.
            let index = index % nodes;
            if index < nodes / 2 && nodes > 2 {
                cluster.nodes[index].dies_at = dies_at;
            }
        }
        cluster.cut(cut_at, cut_at + length);
        if kills_leader && replicas > 1 {
            cluster.replicas[0].dies_at = cut_at + length / 2.0;
        }
        cluster.run(cut_at + length + 20.0);
        for (index, node) in cluster.nodes.iter().enumerate() {
            let died = node.dies_at < f64::MAX;
            prop_assert!(
                died || node.unknown_at.is_none(),
                "node {} turned Unknown at {:?}: {:?}",
                index,
                node.unknown_at,
                cluster.api.history,
            );
        }
        let moves_back = cluster.ends.windows(2).any(|ends| ends[1] < ends[0]);
        prop_assert!(!moves_back);
    }
}
