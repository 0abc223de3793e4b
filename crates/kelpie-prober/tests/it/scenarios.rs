//! The scenarios that come with Kelpie, as docs/scenarios.md tells of them.

use std::ops::RangeInclusive;
use std::time::Duration;

use kelpie_sim::Plan;
use kelpie_sim::chaos::{Chaos, Outcome};
use kelpie_sim::scenario::{Clusters, Fault, Incident, Nodes, Scenario};

use crate::auditor::Figures;
use crate::subject::Prober;

/// Everybody is in their stride when it begins, as in the demo.
const WARM_UP: Duration = Duration::from_mins(2);

/// A fleet as the demo has it, with this scenario and so many watchdogs.
fn play(mut scenario: Scenario, watchdogs: usize) -> Outcome<Figures> {
    for incident in &mut scenario.incidents {
        incident.at += WARM_UP;
    }
    scenario.length += WARM_UP;
    let chaos = Chaos {
        plan: Plan::of(12, 5),
        scenario,
        watchdogs,
    };
    chaos.endure::<Prober>().unwrap()
}

#[test]
fn each_scenario_is_fenced_as_often_as_it_should_and_breaks_nothing_that_is_watched() {
    // A scenario, how often kube-controller-manager is stopped, and what is lost without a watchdog:
    // nodes turned Unknown, machines replaced.
    let expected: [(&str, RangeInclusive<usize>, _, _); 8] = [
        ("partition", 4..=4, 20, true),
        ("zone", 6..=6, 24, true),
        // Three clusters and six partitions, one of which is too short for some.
        ("flapping", 15..=18, 75, false),
        ("api-outage", 0..=0, 0, false),
        ("clock-step", 3..=3, 15, true),
        ("rotation", 4..=4, 20, true),
        ("etcd-outage", 0..=0, 0, false),
        ("seed-wide", 12..=12, 60, true),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, Scenario::built_in_names().collect::<Vec<_>>());
    for (name, fences, unknown, replaces) in expected {
        let scenario = Scenario::built_in(name).unwrap();
        let with = play(scenario.clone(), 1);
        assert_eq!(with.wrong, Vec::<String>::new(), "{name}");
        assert!(
            fences.contains(&with.figures.stops),
            "{name}: {}",
            with.figures.stops
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

/// The watchdog that leads dies ten seconds before a partition, and another one starts twenty seconds
/// later.
fn bad_luck() -> Scenario {
    let seconds = Duration::from_secs;
    let crash = Incident::new(seconds(50), Some(seconds(20)), Fault::Crash);
    let partition = Fault::Partition(Nodes::All);
    let partition = Incident::new(seconds(60), Some(seconds(300)), partition);
    Scenario {
        length: seconds(600),
        incidents: vec![crash, partition.of(Clusters::Share(0.33))],
        ..Scenario::default()
    }
}

#[test]
fn a_lone_watchdog_that_starts_in_a_partition_waits_out_its_initial_delay_and_a_standby_need_not() {
    let (lone, pair) = (play(bad_luck(), 1), play(bad_luck(), 2));
    assert_eq!((lone.figures.stops, pair.figures.stops), (4, 4));
    assert!(lone.damage.margins.iter().all(|margin| *margin < 0.0));
    assert_eq!(pair.damage.nodes_unknown, 0, "{:?}", pair.damage.margins);
    assert!(pair.damage.margins.iter().all(|margin| *margin > 0.0));
}
