//! Changes of the policy and its binding by other clients.

use kelpie_core::prober::guard::Permits;
use proptest::prelude::*;

use super::model::{ApiServer, GuardedCluster, no_permits, seconds};
use crate::evaluator_fixture::at;

/// A change of the guard's objects by another client.
#[derive(Clone, Copy, Debug)]
enum Edit {
    DeletePolicy,
    AlterPolicy,
    DeleteBinding,
    AlterBinding,
    EndInAnHour,
    PermitAll,
    ChangeOwner,
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
            (Self::ChangeOwner, Some((version, Some(_)))) => {
                *version = number;
                objects.is_foreign = true;
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
        Just(Edit::ChangeOwner),
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
        prop_assert_eq!(cluster.ends_moved_back(), Vec::<f64>::new());
    }
}
