//! One healthy round over many leases: read the list, decide. For counting instructions.
//!
//! `cargo xtask bench decision`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    reason = "a bench prints, and its numbers are small"
)]

use std::collections::BTreeMap;

use kelpie_core::{
    Fence, Judge, Lease, Listing, Lists, Node, Observation, Outcome, Roster, Settings, Time,
    Verdict,
};

const SECOND: i64 = 1_000_000;

fn main() {
    let (mut rounds, mut leases) = (100, 5_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let target = match argument.as_str() {
            "--rounds" => &mut rounds,
            "--leases" => &mut leases,
            _ => continue, // cargo's own, such as --bench
        };
        *target = arguments.next().unwrap().parse().unwrap();
    }
    println!(
        "{} rounds of {leases} leases: {:?}",
        rounds,
        run(rounds, leases)
    );
}

/// Rounds 10 s apart over leases renewed every 10 s, phases spread evenly.
fn run(rounds: usize, leases: usize) -> Verdict {
    let names: Vec<_> = (0..leases)
        .map(|index| format!("shoot--project--cluster-worker-a-z1-5f7b9-{index:05}"))
        .collect();
    let nodes: Vec<_> = names
        .iter()
        .map(|name| Node {
            name: name.clone(),
            ..Node::default()
        })
        .collect();
    let mut judge = Judge::new(Settings::default(), Time::from_micros(0));
    let mut verdict = Verdict::Hold;
    for round in 0..rounds as i64 {
        let start = Time::from_micros((100 + round * 10) * SECOND);
        let end = Time::from_micros(start.as_micros() + SECOND / 20);
        let spread = 10 * SECOND / leases as i64;
        let listed = judge.read(
            Listing { start, end },
            names.iter().enumerate().map(|(index, name)| Lease {
                name,
                renew_time: Some(Time::from_micros(start.as_micros() - index as i64 * spread)),
                duration_seconds: Some(40),
            }),
        );
        if judge.nodes_due(&listed, Fence::None) {
            judge.learn(Roster::new(&nodes, None, &BTreeMap::new()), start);
        }
        verdict = judge
            .decide(&Observation {
                start,
                end,
                api_server: Outcome::Success,
                external: None,
                lists: Lists::Read(listed),
                throttled: None,
                fence: Fence::None,
                jitter: 0.5,
            })
            .verdict;
    }
    verdict
}
