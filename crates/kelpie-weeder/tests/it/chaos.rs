//! Chaos runs of the weeder.

use kelpie_chaos::{ChaosOutcome, ChaosRun, RunSet};

use crate::auditor::AuditCounts;
use crate::subject::Weeder;

/// Adds up the counters of all runs.
fn total(counts: Result<Vec<AuditCounts>, String>) -> AuditCounts {
    let counts = counts.unwrap_or_else(|report| panic!("{report}"));
    counts
        .into_iter()
        .fold(AuditCounts::default(), |total, one| AuditCounts {
            deletions: total.deletions + one.deletions,
            undisturbed_deletions: total.undisturbed_deletions + one.undisturbed_deletions,
            returns: total.returns + one.returns,
            capped: total.capped + one.capped,
            late: total.late + one.late,
        })
}

fn new_run(rng_seed: u64) -> ChaosRun {
    ChaosRun::new::<Weeder>(rng_seed, RunSet::DEFAULT.length)
}

fn run(chaos: &ChaosRun) -> ChaosOutcome<AuditCounts> {
    chaos.run::<Weeder>().unwrap()
}

#[test]
fn invariants_hold_under_random_faults() {
    let runs = RunSet {
        count: 100,
        ..RunSet::DEFAULT
    };
    let total = total(runs.run::<Weeder>());
    println!("{total:?}");
    // Guards against a test that checks nothing.
    assert!(
        total.deletions > 400 && total.undisturbed_deletions > 150,
        "{total:?}"
    );
    assert!(total.returns > 150 && total.capped > 40, "{total:?}");
}

#[test]
fn auditor_reports_slow_recovery_without_weeder() {
    let has_violations = |rng_seed: &u64| {
        let unwatched = ChaosRun {
            watchdogs: 0,
            ..new_run(*rng_seed)
        };
        !run(&unwatched).violations.is_empty()
    };
    let found = (0..30).filter(has_violations).count();
    assert!(found > 5, "{found} of 30");
}

#[test]
fn trace_is_reproducible() {
    for rng_seed in 0..5 {
        let (one, two) = (run(&new_run(rng_seed)), run(&new_run(rng_seed)));
        for (number, (one, two)) in one.trace.iter().zip(&two.trace).enumerate() {
            assert_eq!(
                one, two,
                "run {rng_seed}, line {number} of the trace's tail"
            );
        }
        assert_eq!(one, two, "run {rng_seed}");
    }
}

/// Run by `cargo xtask sim`.
#[test]
#[ignore = "length set by the environment: cargo xtask sim"]
fn long() {
    let total = total(RunSet::from_env().run::<Weeder>());
    println!("{total:?}: no violations");
}
