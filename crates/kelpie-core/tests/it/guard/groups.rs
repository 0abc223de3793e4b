//! Zones and worker pools that are held back.

use std::time::Duration;

use kelpie_core::prober::Node;
use kelpie_core::prober::guard::{GroupHold, GroupKind, GuardSettings};

use super::model::{GRACE, GuardedCluster, MONITOR_PERIOD, ModelReplica, seconds};

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

/// Returns a cluster of three zones, each a pool too.
fn with_zones(nodes: usize, guard: &GuardSettings) -> GuardedCluster {
    let mut cluster = GuardedCluster::with_settings(nodes, 1, guard);
    cluster.replicas[0].fixture.node = node_in_zone;
    cluster
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
        let mut cluster = with_zones(12, &guard);
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
    let mut cluster = with_zones(12, &GuardSettings::default());
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(150.0);
    assert_eq!(cluster.unknown(), 4);
}

#[test]
fn restart_does_not_prolong_a_hold() {
    let [(_, guard), _] = group_settings();
    let mut cluster = with_zones(12, &guard);
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(300.0);
    cluster.replicas[0] = ModelReplica::new(&guard, 300.0);
    cluster.replicas[0].fixture.node = node_in_zone;
    cluster.run(420.0);
    assert_eq!(cluster.unknown(), 0);
    cluster.run(450.0);
    assert_eq!(cluster.unknown(), 4);
}

#[test]
fn nodes_that_die_one_after_the_other_are_not_held() {
    let [(_, guard), _] = group_settings();
    let mut cluster = with_zones(9, &guard);
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
    let mut cluster = with_zones(6, &guard);
    cut_zone_a(&mut cluster, 100.0);
    cluster.run(150.0);
    assert_eq!(cluster.unknown(), 2);
}
