//! Chaos by many seeds, and the way back from one that fails.

use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::chaos::Chaos;
use crate::run::{Outcome, run};

/// How long faults go on in the usual test run.
const USUAL: Duration = Duration::from_mins(10);

/// Seeds of the usual test run.
const SEEDS: u64 = 200;

/// Runs seeds on all processors until one fails; gives how much was looked at.
fn run_all(first: u64, count: u64, length: Duration) -> (usize, usize) {
    let next = AtomicU64::new(first);
    let failed: Mutex<Option<u64>> = Mutex::new(None);
    let looked_at = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while failed.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run(&Chaos::new(seed, length));
                    if outcome.wrong.is_empty() {
                        let mut sum = looked_at.lock().unwrap();
                        *sum = (sum.0 + outcome.held, sum.1 + outcome.fences);
                    } else {
                        failed.lock().unwrap().get_or_insert(seed);
                    }
                }
            });
        }
    });
    if let Some(seed) = failed.into_inner().unwrap() {
        panic!("{}", story(Chaos::new(seed, length), length));
    }
    looked_at.into_inner().unwrap()
}

/// What is wrong with a run whose faults go on for `length`, with as few of them as it needs.
fn story(mut chaos: Chaos, length: Duration) -> String {
    let seed = chaos.plan.seed;
    let mut outcome = run(&chaos);
    eprintln!(
        "seed {seed} fails, looking for fewer faults: {:#?}",
        outcome.wrong
    );
    let all = chaos.scenario.incidents.len();
    let mut index = 0;
    while index < chaos.scenario.incidents.len() {
        let mut fewer = chaos.clone();
        fewer.scenario.incidents.remove(index);
        let without = run(&fewer);
        if without.wrong.is_empty() {
            index += 1;
        } else {
            (chaos, outcome) = (fewer, without);
        }
    }
    let Outcome { wrong, trace, .. } = outcome;
    let incidents: Vec<String> = chaos
        .scenario
        .incidents
        .iter()
        .map(ToString::to_string)
        .collect();
    let first = wrong.first().cloned().unwrap_or_default();
    let place = trace
        .iter()
        .position(|line| first.contains(line.split(' ').next().unwrap_or("?")));
    let end = place.map_or(trace.len(), |place| (place + 10).min(trace.len()));
    let begin = end.saturating_sub(60);
    let hours = length.as_secs_f64() / 3_600.0;
    format!(
        "seed {seed} fails:\n  {}\nwith {} of its {all} faults:\n  {}\n{} nodes in each of {} clusters, {} watchdogs\n\
         the trace before:\n  {}\nreplay it with: cargo xtask sim --seed {seed} --hours {hours}",
        wrong.join("\n  "),
        incidents.len(),
        incidents.join("\n  "),
        chaos.plan.nodes,
        chaos.plan.clusters,
        chaos.watchdogs,
        trace[begin..end].join("\n  "),
    )
}

#[test]
fn what_the_prober_promises_holds_whatever_goes_wrong() {
    let (held, fences) = run_all(0, SEEDS, USUAL);
    // Or the test would look at nothing.
    assert!(held > 40 && fences > 200, "{held} {fences}");
}

#[test]
fn where_nobody_watches_the_auditor_finds_the_damage() {
    let unwatched = |seed| Chaos {
        watchdogs: 0,
        ..Chaos::new(seed, USUAL)
    };
    let outcomes: Vec<Outcome> = (0..60).map(|seed| run(&unwatched(seed))).collect();
    let wrong = |outcome: &&Outcome| !outcome.wrong.is_empty();
    let found = outcomes.iter().filter(wrong).count();
    assert!(found > 10, "{found} of 60");
}

#[test]
fn a_run_that_fails_is_told_with_the_faults_it_needs_and_the_command_that_replays_it() {
    // What the prober promises does not hold where there is none.
    let mut unwatched = (0..60).map(|seed| Chaos {
        watchdogs: 0,
        ..Chaos::new(seed, USUAL)
    });
    let has_many = |chaos: &Chaos| chaos.scenario.incidents.len() > 2;
    let failing = unwatched.find(|chaos| has_many(chaos) && !run(chaos).wrong.is_empty());
    let failing = failing.unwrap();
    let (seed, all) = (failing.plan.seed, failing.scenario.incidents.len());
    let told = story(failing, USUAL);
    assert!(told.starts_with(&format!("seed {seed} fails:")), "{told}");
    assert!(
        told.contains(&format!("with 1 of its {all} faults:")),
        "{told}"
    );
    assert!(told.contains("partition of "), "{told}");
    assert!(told.contains("turned Unknown"), "{told}");
    let command = format!("cargo xtask sim --seed {seed} --hours 0.16");
    assert!(told.contains(&command), "{told}");
}

#[test]
fn the_same_seed_gives_the_same_trace_however_busy_the_machine_is() {
    for seed in [1, 2, 3] {
        let chaos = Chaos::new(seed, USUAL);
        let (one, two) = (run(&chaos), under_load(|| run(&chaos)));
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
    let number = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
    };
    let hours = number("KELPIE_SIM_HOURS").unwrap_or(1.0);
    let length = Duration::from_secs_f64(hours * 3_600.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small numbers"
    )]
    let whole = |name: &str| number(name).map(|number| number as u64);
    let seed = whole("KELPIE_SIM_SEED");
    let count = whole("KELPIE_SIM_SEEDS").unwrap_or(1);
    let (held, fences) = run_all(
        seed.unwrap_or(0),
        if seed.is_some() { 1 } else { count },
        length,
    );
    println!("{fences} fences, {held} of them held against their deadlines: nothing is wrong");
}
