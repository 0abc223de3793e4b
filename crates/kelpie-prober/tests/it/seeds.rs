//! Chaos by many seeds, and the way back from one that fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_sim::chaos::{Chaos, Outcome, Search};

use crate::auditor::Figures;
use crate::subject::Prober;

/// How long faults go on in the usual test run.
const USUAL: Duration = Search::USUAL.length;

/// Adds up what there was to look at.
fn sum(figures: Result<Vec<Figures>, String>) -> Figures {
    let figures = figures.unwrap_or_else(|story| panic!("{story}"));
    figures
        .into_iter()
        .fold(Figures::default(), |sum, one| Figures {
            fences: sum.fences + one.fences,
            stops: sum.stops + one.stops,
            releases: sum.releases + one.releases,
            held: sum.held + one.held,
            late: sum.late + one.late,
            late_done: sum.late_done + one.late_done,
        })
}

fn endure(chaos: &Chaos) -> Outcome<Figures> {
    chaos.endure::<Prober>().unwrap()
}

/// Nobody watches, and so nothing that the prober promises holds.
fn unwatched(seed: u64) -> Chaos {
    Chaos {
        watchdogs: 0,
        ..Chaos::new::<Prober>(seed, USUAL)
    }
}

#[test]
fn what_the_prober_promises_holds_whatever_goes_wrong() {
    let sum = sum(Search::USUAL.run::<Prober>());
    println!("{sum:?}");
    // Or the test would look at nothing.
    assert!(sum.held > 40 && sum.fences > 200, "{sum:?}");
    assert!(sum.releases > 200, "{sum:?}");
}

#[test]
fn where_nobody_watches_the_auditor_finds_the_damage() {
    let is_wrong = |seed: &u64| !endure(&unwatched(*seed)).wrong.is_empty();
    let found = (0..60).filter(is_wrong).count();
    assert!(found > 10, "{found} of 60");
}

#[test]
fn a_run_that_fails_is_told_with_the_faults_it_needs_and_the_command_that_replays_it() {
    let has_many = |chaos: &Chaos| chaos.scenario.incidents.len() > 2;
    let mut all = (0..60).map(unwatched);
    let failing = all.find(|chaos| has_many(chaos) && !endure(chaos).wrong.is_empty());
    let failing = failing.unwrap();
    let (seed, all) = (failing.plan.seed, failing.scenario.incidents.len());
    let told = failing.story::<Prober>(USUAL).unwrap();
    assert!(told.starts_with(&format!("seed {seed} fails:")), "{told}");
    assert!(
        told.contains(&format!("with 1 of its {all} faults:")),
        "{told}"
    );
    assert!(told.contains("partition of "), "{told}");
    assert!(told.contains("turned Unknown"), "{told}");
    let command = format!("cargo xtask sim prober --seed {seed} --hours 0.16");
    assert!(told.contains(&command), "{told}");
}

#[test]
fn the_same_seed_gives_the_same_trace_however_busy_the_machine_is() {
    // The last three have two replicas and several clusters, which hear of leadership together.
    for seed in [1, 2, 6, 10, 16] {
        let chaos = Chaos::new::<Prober>(seed, USUAL);
        let (one, two) = (endure(&chaos), under_load(|| endure(&chaos)));
        for (number, (one, two)) in one.trace.iter().zip(&two.trace).enumerate() {
            assert_eq!(one, two, "seed {seed}, line {number} of the last");
        }
        assert_eq!(one, two, "seed {seed}");
    }
}

/// Tells when it is dropped, also by a panic.
struct Tells<'a>(&'a AtomicBool);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does it while every processor is busy with something else.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _over = Tells(&is_over);
        work()
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `cargo xtask sim` runs this.
#[test]
#[ignore = "runs for as long as it is told to: cargo xtask sim"]
fn long() {
    let sum = sum(Search::asked_for().run::<Prober>());
    println!("{sum:?}: nothing is wrong");
}
