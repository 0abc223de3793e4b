//! The race against kube-controller-manager as a table. It compares deadline scheduling with a
//! fixed poll, with the same core and the same partitions.
//!
//! `cargo xtask bench race-model`
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a bench prints, and its numbers are small"
)]

#[path = "../tests/model/mod.rs"]
#[allow(dead_code, reason = "the tests use more disruptions than the bench")]
mod model;

use fastrand::Rng;
use model::{Clocks, Disruption, Policy, RaceScenario};

const RUNS: u64 = 2_000;

fn main() {
    println!(
        "Partitions of 2 to 500 nodes, kube-controller-manager ticking every 5 s, pods ending 2 s \
         after the scale; {RUNS} runs a row.\n"
    );
    println!(
        "| G | policy | partitions without an Unknown node | nodes Unknown \
         | fence after the cut: mean | worst |"
    );
    println!("|---|---|---|---|---|---|");
    for grace in [40.0, 50.0] {
        let rows = [
            ("deadline, interval 10 s", Policy::Deadline, 10.0),
            ("deadline, interval 30 s", Policy::Deadline, 30.0),
            ("fixed poll of 10 s", Policy::FixedPoll, 10.0),
            ("fixed poll of 30 s", Policy::FixedPoll, 30.0),
        ];
        for (name, policy, interval) in rows {
            println!("{}", row(grace, name, policy, interval));
        }
    }
}

fn row(grace: f64, name: &str, policy: Policy, interval: f64) -> String {
    let (mut clean, mut unknown, mut nodes) = (0_u64, 0_u64, 0_u64);
    let mut fence_delays: Vec<f64> = Vec::new();
    for rng_seed in 0..RUNS {
        let mut rng = Rng::with_seed(rng_seed);
        let size = (2.0_f64.ln() + rng.f64() * 250.0_f64.ln()).exp().round() as usize;
        let scenario = RaceScenario {
            nodes: size.clamp(2, 500),
            grace,
            interval,
            clocks: Clocks::Right,
            disruption: Disruption::Partition,
            policy,
            flaky: 0.0,
            rng_seed,
        };
        let report = scenario.run();
        clean += u64::from(report.unknown == 0);
        unknown += u64::from(report.unknown);
        nodes += scenario.nodes as u64;
        fence_delays.extend(report.fenced_after);
    }
    let mean = fence_delays.iter().sum::<f64>() / fence_delays.len() as f64;
    let worst = fence_delays.iter().copied().fold(0.0, f64::max);
    format!(
        "| {grace} s | {name} | {clean} of {RUNS} ({:.2} %) | {:.1} % \
         | {mean:.1} s | {worst:.1} s |",
        100.0 * clean as f64 / RUNS as f64,
        100.0 * unknown as f64 / nodes as f64,
    )
}
