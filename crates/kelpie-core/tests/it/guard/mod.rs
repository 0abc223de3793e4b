//! The guard of a cluster, with a model of its API server and of kube-controller-manager.

mod edits;
mod groups;
mod model;
mod properties;

use std::time::Duration;

use kelpie_core::prober::guard::{
    GuardReply, GuardRole, GuardSettings, GuardState, NodeGuard, Permits,
};

use crate::evaluator_fixture::{at, name};
use model::{GRACE, GuardedCluster, MONITOR_PERIOD, all_renew, no_permits};

#[test]
fn guard_is_armed_and_renewed() {
    let mut cluster = GuardedCluster::new(5, 1);
    cluster.run(60.0);
    assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
    let writes = cluster.api.written.len();
    cluster.run(660.0);
    assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
    assert_eq!(cluster.api.written.len() - writes, 15, "one in 40 s");
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
    let writes = cluster.api.written.len();
    assert!(writes <= 18, "{writes}");
    assert_eq!(cluster.api.conflicts, 0);
}

#[test]
fn refusals_are_retried_seldom() {
    for reply in [GuardReply::Refused, GuardReply::Unsupported] {
        let mut guard = NodeGuard::new(GuardSettings::default(), "us");
        let mut calls = 0;
        for second in 0..600 {
            let now = at(f64::from(second));
            guard.permit(all_renew(), now.after(Duration::from_secs(20)), now);
            if let Some(call) = guard.poll(GuardRole::Leader, now) {
                calls += 1;
                guard.reply(&call, reply.clone(), now);
            }
        }
        assert!((2..12).contains(&calls), "{calls}");
        let expected = match reply {
            GuardReply::Refused => GuardState::Refused,
            _ => GuardState::Unsupported,
        };
        assert_eq!(guard.state(at(600.0)), expected);
        guard.credentials_changed();
        assert!(guard.poll(GuardRole::Leader, at(600.0)).is_some());
    }
}
