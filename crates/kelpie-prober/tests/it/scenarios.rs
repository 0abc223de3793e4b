//! The built-in scenarios, as docs/reference/scenarios.md describes them.

use std::ops::RangeInclusive;
use std::time::Duration;

use kelpie_chaos::{ChaosOutcome, ChaosRun};
use kelpie_sim::LandscapePlan;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection, Scenario};

use crate::auditor::AuditCounts;
use crate::subject::Prober;

/// The time before the first fault in which everything reaches its steady state, as in the demo.
const WARM_UP: Duration = Duration::from_mins(2);

/// Plays a scenario on a fleet of the demo's size, with `watchdogs` replicas.
fn play(mut scenario: Scenario, watchdogs: usize) -> ChaosOutcome<AuditCounts> {
    for incident in &mut scenario.incidents {
        incident.at += WARM_UP;
    }
    scenario.length += WARM_UP;
    let chaos = ChaosRun {
        plan: LandscapePlan::with_size(12, 5),
        scenario,
        watchdogs,
    };
    chaos.run::<Prober>().unwrap()
}

#[test]
fn built_in_scenarios_match_their_docs() {
    // A scenario, the number of times that kube-controller-manager is fenced, and the damage
    // without a prober: nodes turned Unknown, and whether machines are replaced.
    let expected: [(&str, RangeInclusive<usize>, _, _); 10] = [
        ("partition", 4..=4, 20, true),
        ("zone", 6..=6, 24, true),
        // Three clusters and six partitions, one of which is too short for some clusters.
        ("flapping", 15..=18, 75, false),
        ("api-outage", 0..=0, 0, false),
        ("clock-step", 3..=3, 15, true),
        ("rotation", 4..=4, 20, true),
        ("etcd-outage", 0..=0, 0, false),
        ("seed-wide", 12..=12, 60, true),
        ("slow-seed", 4..=4, 20, true),
        ("failover", 4..=4, 20, true),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, Scenario::built_in_names().collect::<Vec<_>>());
    for (name, fences, unknown, replaces) in expected {
        let scenario = Scenario::built_in(name).unwrap();
        let replicas = scenario.replicas.unwrap_or(1).into();
        let with = play(scenario.clone(), replicas);
        assert_eq!(with.violations, Vec::<String>::new(), "{name}");
        assert!(
            fences.contains(&with.counts.stops),
            "{name}: {}",
            with.counts.stops
        );
        let damage = with.damage;
        assert_eq!(
            (
                damage.nodes_unknown,
                damage.machines_replaced,
                damage.pods_evicted
            ),
            (0, 0, 0),
            "{name}"
        );
        assert!(damage.margins.iter().all(|margin| *margin > 0.0), "{name}");
        let without = play(scenario, 0).damage;
        assert_eq!(without.nodes_unknown, unknown, "{name}");
        assert_eq!(without.machines_replaced > 0, replaces, "{name}");
        assert!(without.margins.is_empty(), "{name}");
    }
}

#[test]
fn failover_needs_a_second_replica() {
    let lone = play(Scenario::built_in("failover").unwrap(), 1);
    assert_eq!((lone.counts.stops, lone.damage.nodes_unknown), (4, 20));
}

/// The leader crashes ten seconds before a partition, and a replica starts twenty seconds later.
fn bad_luck() -> Scenario {
    let seconds = Duration::from_secs;
    let crash = Incident::new(seconds(50), Some(seconds(20)), Fault::Crash);
    let partition = Fault::Partition(NodeSelection::All);
    let partition = Incident::new(seconds(60), Some(seconds(300)), partition);
    Scenario {
        length: seconds(600),
        incidents: vec![crash, partition.in_clusters(ClusterSelection::Share(0.33))],
        ..Scenario::default()
    }
}

#[test]
fn standby_fences_without_initial_delay() {
    let (lone, pair) = (play(bad_luck(), 1), play(bad_luck(), 2));
    assert_eq!((lone.counts.stops, pair.counts.stops), (4, 4));
    assert!(lone.damage.margins.iter().all(|margin| *margin < 0.0));
    assert_eq!(pair.damage.nodes_unknown, 0, "{:?}", pair.damage.margins);
    assert!(pair.damage.margins.iter().all(|margin| *margin > 0.0));
}
