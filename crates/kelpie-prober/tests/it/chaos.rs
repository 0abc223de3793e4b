//! Chaos runs of the prober, and the report of a run that fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_chaos::{ChaosOutcome, ChaosRun, RunSet};

use crate::auditor::AuditCounts;
use crate::subject::Prober;

/// The time in which faults occur in an ordinary test run.
const LENGTH: Duration = RunSet::DEFAULT.length;

/// Adds up the counters of all runs.
fn total(counts: Result<Vec<AuditCounts>, String>) -> AuditCounts {
    let counts = counts.unwrap_or_else(|report| panic!("{report}"));
    counts
        .into_iter()
        .fold(AuditCounts::default(), |total, one| AuditCounts {
            fences: total.fences + one.fences,
            stops: total.stops + one.stops,
            releases: total.releases + one.releases,
            deadline_checks: total.deadline_checks + one.deadline_checks,
            late: total.late + one.late,
            late_applied: total.late_applied + one.late_applied,
        })
}

fn run(chaos: &ChaosRun) -> ChaosOutcome<AuditCounts> {
    chaos.run::<Prober>().unwrap()
}

/// A run without a prober, in which the invariants are violated.
fn unwatched(rng_seed: u64) -> ChaosRun {
    ChaosRun {
        watchdogs: 0,
        ..ChaosRun::new::<Prober>(rng_seed, LENGTH)
    }
}

#[test]
fn invariants_hold_under_random_faults() {
    let total = total(RunSet::DEFAULT.run::<Prober>());
    println!("{total:?}");
    // Guards against a test that checks nothing.
    assert!(
        total.deadline_checks > 40 && total.fences > 200,
        "{total:?}"
    );
    assert!(total.releases > 200, "{total:?}");
}

#[test]
fn auditor_reports_damage_without_prober() {
    let has_violations = |rng_seed: &u64| !run(&unwatched(*rng_seed)).violations.is_empty();
    let found = (0..60).filter(has_violations).count();
    assert!(found > 10, "{found} of 60");
}

#[test]
fn failure_report_shrinks_and_replays() {
    let has_many = |chaos: &ChaosRun| chaos.scenario.incidents.len() > 2;
    let mut all = (0..60).map(unwatched);
    let failing = all.find(|chaos| has_many(chaos) && !run(chaos).violations.is_empty());
    let failing = failing.unwrap();
    let (rng_seed, all) = (failing.plan.rng_seed, failing.scenario.incidents.len());
    let report = failing.failure_report::<Prober>(LENGTH).unwrap();
    assert!(
        report.starts_with(&format!("run {rng_seed} failed:")),
        "{report}"
    );
    assert!(
        report.contains(&format!("with 1 of its {all} faults:")),
        "{report}"
    );
    assert!(report.contains("partition of "), "{report}");
    assert!(report.contains("turned Unknown"), "{report}");
    let command = format!("cargo xtask sim prober --seed {rng_seed} --hours 0.16");
    assert!(report.contains(&command), "{report}");
}

#[test]
fn trace_is_reproducible_under_load() {
    // The last three have two replicas and several clusters, which learn of leadership together.
    for rng_seed in [1, 2, 6, 10, 16] {
        let chaos = ChaosRun::new::<Prober>(rng_seed, LENGTH);
        let (one, two) = (run(&chaos), under_load(|| run(&chaos)));
        for (number, (one, two)) in one.trace.iter().zip(&two.trace).enumerate() {
            assert_eq!(
                one, two,
                "run {rng_seed}, line {number} of the trace's tail"
            );
        }
        assert_eq!(one, two, "run {rng_seed}");
    }
}

/// Sets a flag on drop, also when unwinding.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while all processors are busy.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _stop_load = SetOnDrop(&is_done);
        work()
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Run by `cargo xtask sim`.
#[test]
#[ignore = "length set by the environment: cargo xtask sim"]
fn long() {
    let total = total(RunSet::from_env().run::<Prober>());
    println!("{total:?}: no violations");
}
