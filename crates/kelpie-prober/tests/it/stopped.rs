//! A leader that is stopped in the midst of a write, for longer than its lease: when it goes on, the write
//! arrives, and somebody else leads.

use std::time::Duration;

use kelpie_sim::Plan;
use kelpie_sim::chaos::{Chaos, Outcome};
use kelpie_sim::scenario::{Fault, Incident, Nodes, Scenario};

use crate::auditor::Figures;
use crate::subject::Prober;

/// From when to when, in seconds.
type Times = (u64, u64);

/// All nodes are cut off at these times, and the leader is stopped from its first write within the last ones
/// on, or with some seeds at once.
fn play(seed: u64, watchdogs: usize, partitions: &[Times], stop: Times) -> Outcome<Figures> {
    let incident = |(begin, end): Times, fault| {
        let lasts = Duration::from_secs(end - begin);
        Incident::new(Duration::from_secs(begin), Some(lasts), fault)
    };
    let cut = |times: &Times| incident(*times, Fault::Partition(Nodes::All));
    let stopped = incident(stop, Fault::Pause);
    let chaos = Chaos {
        plan: Plan {
            seed,
            ..Plan::of(1, 5)
        },
        scenario: Scenario {
            length: Duration::from_mins(8),
            incidents: partitions.iter().map(cut).chain([stopped]).collect(),
            ..Scenario::default()
        },
        watchdogs,
    };
    let outcome = chaos.endure::<Prober>().unwrap();
    assert_eq!(outcome.wrong, Vec::<String>::new(), "seed {seed}");
    outcome
}

#[test]
fn a_fence_that_its_leader_could_not_finish_is_made_by_another_and_what_arrives_late_is_refused() {
    let play = |seed| play(seed, 2, &[(120, 300)], (120, 180 + 3 * seed)).figures;
    let figures: Vec<Figures> = (0..10).map(play).collect();
    let late = figures.iter().filter(|one| one.late > 0).count();
    assert!(late > 2, "{figures:?}");
    assert!(figures.iter().all(|one| one.late_done == 0), "{figures:?}");
}

#[test]
fn a_release_that_arrives_when_another_one_leads_is_refused() {
    let play = |seed| {
        let outcome = play(seed, 2, &[(120, 300), (316, 470)], (300, 340 + 3 * seed));
        assert_eq!(outcome.damage.nodes_unknown, 0, "seed {seed}");
        outcome.figures
    };
    let figures: Vec<Figures> = (0..10).map(play).collect();
    let late = figures.iter().filter(|one| one.late > 0).count();
    assert!(late > 2, "{figures:?}");
    assert!(figures.iter().all(|one| one.late_done == 0), "{figures:?}");
}

#[test]
fn a_release_of_one_who_is_alone_that_arrives_in_the_next_partition_is_taken_back() {
    let play = |seed| {
        let outcome = play(seed, 1, &[(120, 300), (316, 470)], (300, 340 + 3 * seed));
        assert_eq!(outcome.damage.nodes_unknown, 0, "seed {seed}");
        outcome.figures
    };
    let figures: Vec<Figures> = (0..10).map(play).collect();
    let done = figures.iter().filter(|one| one.late_done > 0).count();
    assert!(done > 2, "{figures:?}");
}
