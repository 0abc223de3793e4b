//! Properties of any guard, whatever happens to nodes, replicas and calls.

use kelpie_core::prober::guard::{GuardRole, GuardSettings, GuardState, NodeGuard};
use proptest::prelude::*;

use super::model::{
    CallFate, CallFault, GRACE, GuardedCluster, LAG, ModelReplica, RENEWAL, STEP, all_renew,
    no_permits, seconds,
};
use crate::evaluator_fixture::at;

fn any_fate() -> impl Strategy<Value = CallFate> {
    prop_oneof![
        Just(CallFate::Lost),
        Just(CallFate::Unanswered),
        Just(CallFate::Refused),
        (0.5..15.0_f64).prop_map(CallFate::Slow),
    ]
}

/// Faults of the calls of the replicas that begin before 300 s, each with its replica.
fn any_faults() -> impl Strategy<Value = Vec<(usize, CallFault)>> {
    let fault = (0_usize..3, 0.0..250.0_f64, 1.0..50.0_f64, any_fate());
    let fault = fault.prop_map(|(replica, from, length, fate)| {
        let to = from + length;
        (replica, CallFault { from, to, fate })
    });
    prop::collection::vec(fault, 0..6)
}

fn with_faults(cluster: &mut GuardedCluster, faults: &[(usize, CallFault)]) {
    let replicas = cluster.replicas.len();
    for (replica, fault) in faults {
        cluster.replicas[replica % replicas]
            .call_faults
            .push(*fault);
    }
}

/// Lets nodes die, but fewer than would trip the cluster.
fn let_die(cluster: &mut GuardedCluster, deaths: &[(usize, f64)]) {
    let nodes = cluster.nodes.len();
    for (index, dies_at) in deaths {
        let index = index % nodes;
        if index < nodes / 3 {
            cluster.nodes[index].dies_at = *dies_at;
        }
    }
}

/// Replaces a replica by a process that knows nothing.
fn restart(cluster: &mut GuardedCluster, replica: usize) {
    let first_look = cluster.now + 1.0;
    let guard = GuardSettings::default();
    let faults = cluster.replicas[replica].call_faults.clone();
    cluster.replicas[replica] = ModelReplica::new(&guard, first_look);
    cluster.replicas[replica].call_faults = faults;
}

#[derive(Clone, Debug)]
enum Disturbance {
    StandbyRestarts(Vec<f64>),
    CallFaults(Vec<(usize, CallFault)>),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lone_node_is_permitted_within_a_look(
        nodes in 1_usize..20,
        replicas in 1_usize..4,
        dies_at in 40.0..200.0_f64,
        latency in 0.0..1.0_f64,
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        let fate = CallFate::Slow(latency);
        for replica in &mut cluster.replicas {
            replica.call_faults.push(CallFault { from: 0.0, to: f64::MAX, fate });
        }
        cluster.nodes[0].dies_at = dies_at;
        cluster.run(dies_at + 80.0);
        let node = &cluster.nodes[0];
        // The end of each expiry is looked at, so the look comes when the node may be permitted.
        let waited = node.permitted_at.unwrap() - (node.renewed + 0.75 * GRACE);
        prop_assert!(waited <= 2.0 * latency.max(STEP) + 2.0 * STEP, "waited {}", waited);
    }

    #[test]
    fn lone_node_is_permitted_soon_after_faults(
        nodes in 3_usize..20,
        replicas in 1_usize..4,
        dies_at in 40.0..200.0_f64,
        faults in any_faults(),
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        with_faults(&mut cluster, &faults);
        cluster.nodes[0].dies_at = dies_at;
        let faulty_until = faults.iter().map(|(_, fault)| fault.to).fold(0.0, f64::max);
        cluster.run(dies_at.max(faulty_until) + 100.0);
        let node = &cluster.nodes[0];
        let may_at = (node.renewed + 0.75 * GRACE).max(faulty_until);
        let waited = node.permitted_at.unwrap() - may_at;
        // The longest call, then the longest pause after a refusal.
        prop_assert!(waited <= 10.0 + 45.0, "waited {}", waited);
    }

    #[test]
    fn nothing_is_permitted_in_a_trip(
        nodes in 3_usize..12,
        replicas in 1_usize..4,
        deaths in prop::collection::vec((0_usize..12, 40.0..150.0_f64), 0..3),
        cut_at in 100.0..200.0_f64,
        length in 30.0..150.0_f64,
        faults in any_faults(),
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        with_faults(&mut cluster, &faults);
        let_die(&mut cluster, &deaths);
        cluster.cut(cut_at, cut_at + length);
        cluster.run(450.0);
        for replica in &cluster.replicas {
            prop_assert_eq!(&replica.permits_while_tripped, &vec![]);
        }
    }

    #[test]
    fn permits_are_withdrawn_at_a_trip(
        nodes in 6_usize..12,
        replicas in 1_usize..4,
        death in 40.0..100.0_f64,
        cut_at in 140.0..200.0_f64,
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        cluster.nodes[0].dies_at = death;
        cluster.cut(cut_at, f64::MAX);
        // The first leases expire 0.75 G after their last renewal, the last ones a renewal later.
        cluster.run(cut_at + 0.75 * GRACE + 1.0);
        let mut permits = cluster.api.stored.content().map(|content| content.permits.clone());
        prop_assert_eq!(permits.take(), Some(no_permits()));
        cluster.run(cut_at + 200.0);
        let permitted = cluster.nodes[1..].iter().any(|node| node.permitted_at.is_some());
        prop_assert!(!permitted);
    }

    #[test]
    fn end_never_moves_back(
        nodes in 2_usize..8,
        replicas in 1_usize..4,
        faults in any_faults(),
        deaths in prop::collection::vec((0_usize..8, 40.0..250.0_f64), 0..3),
        clock_offset in -900.0..900.0_f64,
        restarts in prop::collection::vec((0_usize..3, 20.0..80.0_f64), 0..4),
        leader_dies in any::<bool>(),
    ) {
        let mut cluster = GuardedCluster::new(nodes, replicas);
        cluster.api.clock_offset = clock_offset;
        with_faults(&mut cluster, &faults);
        let_die(&mut cluster, &deaths);
        for (replica, pause) in restarts {
            cluster.run(cluster.now + pause.floor());
            restart(&mut cluster, replica % replicas);
        }
        if leader_dies && replicas > 1 {
            cluster.replicas[0].dies_at = cluster.now + 10.0;
        }
        cluster.run(450.0);
        prop_assert_eq!(cluster.ends_moved_back(), Vec::<f64>::new());
        let ahead = |until| seconds(until) - (cluster.now + clock_offset);
        let end = cluster.api.stored.content().map(|content| ahead(content.until));
        prop_assert!(end.is_some_and(|left| (50.0..=121.0).contains(&left)), "{:?}", end);
    }

    #[test]
    fn replicas_do_not_undo_each_other(
        nodes in 6_usize..12,
        deaths in prop::collection::vec((0_usize..12, 40.0..150.0_f64), 0..3),
        cut in prop::option::of((60.0..150.0_f64, 40.0..100.0_f64)),
        stays_away in any::<bool>(),
        disturbance in prop_oneof![
            prop::collection::vec(100.0..260.0_f64, 0..3).prop_map(Disturbance::StandbyRestarts),
            any_faults().prop_map(Disturbance::CallFaults),
        ],
    ) {
        let (restarts, faults) = match disturbance {
            Disturbance::StandbyRestarts(restarts) => (restarts, Vec::new()),
            Disturbance::CallFaults(faults) => (Vec::new(), faults),
        };
        let play = |replicas: usize| {
            let mut cluster = GuardedCluster::new(nodes, replicas);
            if replicas > 1 {
                with_faults(&mut cluster, &faults);
            }
            let_die(&mut cluster, &deaths);
            if let Some((from, length)) = cut {
                cluster.cut(from, from + length);
                if stays_away {
                    cluster.nodes[nodes - 1].dies_at = from;
                }
            }
            let mut restarts = restarts.clone();
            restarts.sort_by(f64::total_cmp);
            for restart_at in restarts {
                cluster.run(restart_at.floor());
                if replicas > 1 {
                    restart(&mut cluster, 1);
                }
            }
            cluster.run(600.0);
            cluster
        };
        let (one, two) = (play(1), play(2));
        let (alone, together) = (one.api.permit_changes(), two.api.permit_changes());
        prop_assert!(together <= alone, "{} > {}: {:?}", together, alone, two.api.written);
        let writes = two.api.written.len();
        prop_assert!(writes <= 600 / 40 + 2 + faults.len() + 2 * together, "{}", writes);
    }

    #[test]
    fn armed_guard_is_enforced(
        replicas in 1_usize..3,
        deaths in prop::collection::vec((0_usize..8, 40.0..250.0_f64), 0..3),
        faults in any_faults(),
    ) {
        let mut cluster = GuardedCluster::new(8, replicas);
        with_faults(&mut cluster, &faults);
        let_die(&mut cluster, &deaths);
        while cluster.now < 350.0 {
            cluster.run(cluster.now + STEP);
            for replica in &cluster.replicas {
                if let GuardState::Armed { until } = replica.guard.state(at(cluster.now)) {
                    // Another replica may have changed the permits since the last check.
                    let enforced = |ago: f64| cluster.api.enforced(cluster.now - ago).is_some();
                    prop_assert!(enforced(0.0) && enforced(STEP), "at {}", cluster.now);
                    prop_assert!(seconds(until) > cluster.now);
                }
            }
        }
        prop_assert!(cluster.is_armed());
    }
}

#[test]
fn first_write_follows_the_clock_of_the_api_server() {
    for clock_offset in [-600.0, 600.0] {
        let mut cluster = GuardedCluster::new(3, 1);
        cluster.api.clock_offset = clock_offset;
        cluster.run(LAG + 2.0 * STEP);
        let first = seconds(cluster.api.written[0].1.until);
        let ahead = first - clock_offset;
        assert!((118.0..122.0).contains(&ahead), "{ahead}");
    }
}

#[test]
fn standby_that_disagrees_yields_to_a_living_leader() {
    let mut cluster = GuardedCluster::new(6, 2);
    cluster.cut(100.0, 150.0);
    cluster.nodes[5].dies_at = 100.0;
    // It knows nothing of the partition.
    cluster.run(155.0);
    restart(&mut cluster, 1);
    cluster.run(170.0);
    assert_eq!(
        cluster.nodes[5].permitted_at, None,
        "{:?}",
        cluster.api.written
    );
    cluster.run(240.0);
    let permitted = cluster.nodes[5].permitted_at.unwrap();
    assert!((185.0..210.0).contains(&permitted), "{permitted}");
}

#[test]
fn end_of_an_unrenewed_guard_is_told() {
    let mut cluster = GuardedCluster::new(3, 1);
    cluster.run(2.0 * RENEWAL);
    let guard = &mut cluster.replicas[0].guard;
    let GuardState::Armed { until } = guard.state(at(20.0)) else {
        panic!("not armed");
    };
    let expires = guard.runs_out_at(at(20.0)).unwrap();
    assert!(seconds(expires) - seconds(until) < 1.0);
    assert_eq!(guard.state(expires), GuardState::Expired);
    assert_eq!(guard.runs_out_at(expires), None);
    assert_eq!(guard.poll(GuardRole::Leader, expires), None, "it is blind");
}

#[test]
fn brief_refusal_does_not_let_an_armed_guard_run_out() {
    let mut cluster = GuardedCluster::new(3, 1);
    cluster.replicas[0].call_faults.push(CallFault {
        from: 60.0,
        to: 90.0,
        fate: CallFate::Refused,
    });
    cluster.run(90.0);
    assert_eq!(cluster.state(), GuardState::Refused);
    cluster.run(140.0);
    assert!(cluster.is_armed(), "{:?}", cluster.replicas[0].states);
}

#[test]
fn rejected_writes_are_tried_ever_more_slowly() {
    use kelpie_core::prober::guard::{GuardCall, GuardReply};
    let mut guard = NodeGuard::new(GuardSettings::default(), "us");
    let mut calls = 0;
    for step in 0..2_400 {
        let now = at(f64::from(step) * STEP);
        guard.permit(all_renew(), at(seconds(now) + 20.0), now);
        while let Some(call) = guard.poll(GuardRole::Leader, now) {
            calls += 1;
            let reply = match call {
                GuardCall::ReadPolicy => GuardReply::Policy(None),
                GuardCall::ReadBinding => GuardReply::Binding(None),
                _ => GuardReply::Failed,
            };
            guard.reply(&call, reply, now);
        }
    }
    assert!(calls < 250, "{calls} calls in 600 s");
}

#[test]
fn restart_withdraws_no_permit() {
    let mut cluster = GuardedCluster::new(6, 1);
    cluster.nodes[0].dies_at = 100.0;
    cluster.run(130.0);
    let changes = cluster.api.permit_changes();
    assert_eq!(changes, 1, "{:?}", cluster.api.written);
    restart(&mut cluster, 0);
    cluster.run(200.0);
    assert_eq!(cluster.api.permit_changes(), 1, "{:?}", cluster.api.written);
}
