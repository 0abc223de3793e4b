//! A leader that is paused in the middle of a write for longer than its lease. When it resumes, the
//! write arrives while another replica leads.

use std::time::Duration;

use kelpie_chaos::{ChaosOutcome, ChaosRun};
use kelpie_sim::LandscapePlan;
use kelpie_sim::scenario::{Fault, Incident, NodeSelection, Scenario};

use crate::auditor::AuditCounts;
use crate::subject::Prober;

/// Start and end, in seconds.
type Period = (u64, u64);

/// Cuts all nodes off during `partitions`. The leader is paused during `pause`: from its first
/// write on or, in some runs, immediately.
fn run_with_pause(
    rng_seed: u64,
    watchdogs: usize,
    partitions: &[Period],
    pause: Period,
) -> ChaosOutcome<AuditCounts> {
    let incident = |(begin, end): Period, fault| {
        let lasts = Duration::from_secs(end - begin);
        Incident::new(Duration::from_secs(begin), Some(lasts), fault)
    };
    let cut = |period: &Period| incident(*period, Fault::Partition(NodeSelection::All));
    let pause_incident = incident(pause, Fault::Pause);
    let chaos = ChaosRun {
        plan: LandscapePlan {
            rng_seed,
            ..LandscapePlan::with_size(1, 5)
        },
        scenario: Scenario {
            length: Duration::from_mins(8),
            incidents: partitions.iter().map(cut).chain([pause_incident]).collect(),
            ..Scenario::default()
        },
        watchdogs,
    };
    let outcome = chaos.run::<Prober>().unwrap();
    assert_eq!(outcome.violations, Vec::<String>::new(), "run {rng_seed}");
    outcome
}

/// Pauses the leader while it releases the fence of the first of two partitions, into the second.
fn late_release(rng_seed: u64, watchdogs: usize) -> AuditCounts {
    let partitions = [(120, 300), (316, 470)];
    let pause = (300, 340 + 3 * rng_seed);
    let outcome = run_with_pause(rng_seed, watchdogs, &partitions, pause);
    assert_eq!(outcome.damage.nodes_unknown, 0, "run {rng_seed}");
    outcome.counts
}

#[test]
fn new_leader_completes_fence_and_late_write_fails() {
    let run =
        |rng_seed| run_with_pause(rng_seed, 2, &[(120, 300)], (120, 180 + 3 * rng_seed)).counts;
    let counts: Vec<AuditCounts> = (0..10).map(run).collect();
    let late = counts.iter().filter(|one| one.late > 0).count();
    assert!(late > 2, "{counts:?}");
    assert!(counts.iter().all(|one| one.late_applied == 0), "{counts:?}");
}

#[test]
fn late_release_under_new_leader_fails() {
    let counts: Vec<AuditCounts> = (0..10).map(|run| late_release(run, 2)).collect();
    let late = counts.iter().filter(|one| one.late > 0).count();
    assert!(late > 2, "{counts:?}");
    assert!(counts.iter().all(|one| one.late_applied == 0), "{counts:?}");
}

#[test]
fn late_release_without_standby_is_reverted() {
    let counts: Vec<AuditCounts> = (0..10).map(|run| late_release(run, 1)).collect();
    let applied = counts.iter().filter(|one| one.late_applied > 0).count();
    assert!(applied > 2, "{counts:?}");
}
