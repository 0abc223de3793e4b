//! The matrix: partitions with one further fault of any kind, at any phase.
//!
//! An oracle says where a fence in time was possible. A play is lost if a node turns Unknown
//! although it was.

mod observer;
mod play;
mod second_fault;
mod summary;

use std::collections::BTreeMap;
use std::env;
use std::ops::ControlFlow;

use kelpie_chaos::{ChaosOutcome, RunSet};
use kelpie_sim::Platform;
use parking_lot::Mutex;

use observer::{PlayResult, Watched};
use play::{LandscapePlay, PLAYS_PER_LANDSCAPE};
use second_fault::{ALL, SecondFault};
use summary::Summary;

const GARDENER: Platform = Platform::Gardener;

fn run(play: &LandscapePlay) -> ChaosOutcome<Vec<PlayResult>> {
    let run = play.chaos_run();
    if play.is_guarded {
        run.run::<Watched<true>>().unwrap()
    } else {
        run.run::<Watched<false>>().unwrap()
    }
}

/// Runs the landscapes with these RNG seeds for each of the faults, on all processors.
fn summaries(
    faults: &[&'static SecondFault],
    rng_seeds: std::ops::Range<u64>,
    (platform, is_guarded): (Platform, bool),
) -> Vec<(&'static str, Summary)> {
    let per_fault = rng_seeds.end - rng_seeds.start;
    let runs = RunSet {
        first: 0,
        count: per_fault * faults.len() as u64,
        ..RunSet::DEFAULT
    };
    let outcomes = Mutex::new(BTreeMap::new());
    runs.for_each_run(|number| {
        let index = usize::try_from(number / per_fault).unwrap();
        let play = LandscapePlay {
            fault: faults[index],
            rng_seed: rng_seeds.start + number % per_fault,
            is_guarded,
            platform,
        };
        let outcome = run(&play);
        let entry = (play.rng_seed, outcome.counts, outcome.violations.len());
        outcomes.lock().insert(number, (index, entry));
        ControlFlow::Continue(())
    });
    let mut summaries: Vec<_> = faults
        .iter()
        .map(|fault| (fault.name, Summary::default()))
        .collect();
    for (index, (rng_seed, plays, violations)) in outcomes.into_inner().into_values() {
        summaries[index].1.add(rng_seed, &plays, violations);
    }
    summaries
}

fn fault(name: &str) -> &'static SecondFault {
    let found = ALL.iter().find(|fault| fault.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|fault| fault.name).collect();
        panic!("no fault `{name}`; use one of {}", names.join(", "))
    })
}

#[test]
fn clean_partitions_are_won() {
    let [(_, summary)] = &summaries(&[fault("none")], 0..4, (GARDENER, false))[..] else {
        panic!("one fault");
    };
    assert_eq!(summary.plays, 4 * PLAYS_PER_LANDSCAPE);
    assert!(summary.possible > 0, "{summary:?}");
    assert_eq!(
        (summary.lost, summary.not_possible_lost),
        (0, 0),
        "{summary:?}"
    );
    assert_eq!(
        (summary.late_restores, summary.unfounded),
        (0, 0),
        "{summary:?}"
    );
}

#[test]
fn plays_repeat_exactly() {
    for name in ["shoot-refusal", "cpu-starvation", "crash"] {
        let play = LandscapePlay {
            fault: fault(name),
            rng_seed: 3,
            is_guarded: false,
            platform: GARDENER,
        };
        let (one, two) = (run(&play), run(&play));
        assert_eq!(one.fingerprint, two.fingerprint, "{name}");
        assert_eq!(one.counts, two.counts, "{name}");
    }
}

#[test]
fn second_faults_lose_no_possible_play() {
    let summaries = summaries(&ALL.each_ref(), 0..2, (GARDENER, false));
    print!("{}", summary::table(&summaries));
    let bad = |(_, summary): &&(&str, Summary)| {
        summary.lost + summary.late_restores + summary.unfounded > 0
    };
    let bad: Vec<_> = summaries.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn guard_loses_no_play_before_it_runs_out() {
    let summaries = summaries(&ALL.each_ref(), 0..1, (GARDENER, true));
    print!("{}", summary::table(&summaries));
    let bad = |(_, summary): &&(&str, Summary)| summary.lost + summary.lost_under_guard > 0;
    let bad: Vec<_> = summaries.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn pauses_of_cluster_api_are_exact() {
    let summaries = summaries(&ALL.each_ref(), 0..1, (Platform::ClusterApi, true));
    print!("{}", summary::table(&summaries));
    let bad = |(_, summary): &&(&str, Summary)| {
        summary.lost + summary.lost_under_guard + summary.late_restores > 0
    };
    let bad: Vec<_> = summaries.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// Each of these was lost or restored late before.
#[test]
fn landscapes_of_past_losses_are_won() {
    for (name, rng_seed) in [
        ("shoot-outage", 23),
        ("shoot-latency", 16),
        ("seed-latency", 53),
        ("shoot-body-cut", 48),
        ("lease-list-stall", 120),
    ] {
        let [(_, summary)] =
            &summaries(&[fault(name)], rng_seed..rng_seed + 1, (GARDENER, false))[..]
        else {
            panic!("one fault");
        };
        assert!(summary.possible > 0, "{name}: {summary:?}");
        assert_eq!(
            (summary.lost, summary.late_restores),
            (0, 0),
            "{name}: {summary:?}"
        );
    }
}

/// Run by `cargo xtask sim matrix`.
#[test]
#[ignore = "length set by the environment: cargo xtask sim matrix"]
fn long() {
    let number = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let faults: Vec<&SecondFault> = match env::var("KELPIE_MATRIX_FAULT") {
        Ok(name) => vec![fault(&name)],
        Err(_) => ALL.iter().collect(),
    };
    let is_guarded = env::var_os("KELPIE_MATRIX_GUARD").is_some();
    let platform = match env::var_os("KELPIE_MATRIX_CLUSTER_API") {
        Some(_) => Platform::ClusterApi,
        None => GARDENER,
    };
    if let Some(rng_seed) = number("KELPIE_SIM_SEED") {
        for fault in faults {
            let play = LandscapePlay {
                fault,
                rng_seed,
                is_guarded,
                platform,
            };
            let outcome = run(&play);
            println!("{}", play.describe());
            outcome.counts.iter().for_each(|play| println!("  {play}"));
            for violation in outcome.violations {
                println!("  rule broken: {violation}");
            }
        }
        return;
    }
    let plays = number("KELPIE_MATRIX_PLAYS").unwrap_or(60);
    let landscapes = plays.div_ceil(PLAYS_PER_LANDSCAPE as u64).max(1);
    let summaries = summaries(&faults, 0..landscapes, (platform, is_guarded));
    print!("{}", summary::table(&summaries));
    let lost = |(_, summary): &(&str, Summary)| summary.lost + summary.lost_under_guard;
    assert_eq!(
        summaries.iter().map(lost).sum::<usize>(),
        0,
        "plays were lost although a fence in time was possible, or under a guard"
    );
}
