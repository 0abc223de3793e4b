//! Chaos by many seeds.

use kelpie_sim::chaos::{Chaos, Outcome, Search};

use crate::auditor::Figures;
use crate::subject::Weeder;

/// Adds up what there was to look at.
fn sum(figures: Result<Vec<Figures>, String>) -> Figures {
    let figures = figures.unwrap_or_else(|story| panic!("{story}"));
    figures
        .into_iter()
        .fold(Figures::default(), |sum, one| Figures {
            deletions: sum.deletions + one.deletions,
            held: sum.held + one.held,
            returns: sum.returns + one.returns,
            capped: sum.capped + one.capped,
            late: sum.late + one.late,
        })
}

fn chaos(seed: u64) -> Chaos {
    Chaos::new::<Weeder>(seed, Search::USUAL.length)
}

fn endure(chaos: &Chaos) -> Outcome<Figures> {
    chaos.endure::<Weeder>().unwrap()
}

#[test]
fn what_the_weeder_promises_holds_whatever_goes_wrong() {
    let search = Search {
        count: 100,
        ..Search::USUAL
    };
    let sum = sum(search.run::<Weeder>());
    println!("{sum:?}");
    // Or the test would look at nothing.
    assert!(sum.deletions > 400 && sum.held > 150, "{sum:?}");
    assert!(sum.returns > 150 && sum.capped > 40, "{sum:?}");
}

#[test]
fn where_nobody_weeds_the_auditor_finds_who_had_to_wait() {
    let is_wrong = |seed: &u64| {
        let unwatched = Chaos {
            watchdogs: 0,
            ..chaos(*seed)
        };
        !endure(&unwatched).wrong.is_empty()
    };
    let found = (0..30).filter(is_wrong).count();
    assert!(found > 5, "{found} of 30");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..5 {
        let (one, two) = (endure(&chaos(seed)), endure(&chaos(seed)));
        for (number, (one, two)) in one.trace.iter().zip(&two.trace).enumerate() {
            assert_eq!(one, two, "seed {seed}, line {number} of the last");
        }
        assert_eq!(one, two, "seed {seed}");
    }
}

/// `cargo xtask sim` runs this.
#[test]
#[ignore = "runs for as long as it is told to: cargo xtask sim"]
fn long() {
    let sum = sum(Search::asked_for().run::<Weeder>());
    println!("{sum:?}: nothing is wrong");
}
