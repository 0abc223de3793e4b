//! Healthy rounds over many leases: read the list, decide. Used to count instructions.
//!
//! `cargo xtask bench decision`
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and fails loudly"
)]

#[path = "../tests/rounds/mod.rs"]
mod rounds;

use rounds::{Rounds, SECOND};

fn main() {
    let (mut count, mut leases) = (100, 5_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let number = match argument.as_str() {
            "--rounds" => &mut count,
            "--leases" => &mut leases,
            _ => continue, // An argument of cargo, such as --bench.
        };
        *number = arguments.next().unwrap().parse().unwrap();
    }
    // Rounds are 10 s apart. The leases are renewed every 10 s, with phases spread evenly.
    let mut rounds = Rounds::with_leases(usize::try_from(leases).unwrap());
    let spread = 10 * SECOND / leases;
    let mut verdict = None;
    for round in 0..count {
        let now = 100 + round * 10;
        let renewed = |index: usize| now * SECOND - i64::try_from(index).unwrap() * spread;
        verdict = Some(rounds.round(now, renewed).verdict);
    }
    println!("{count} rounds of {leases} leases: {verdict:?}");
}
