//! The race against kube-controller-manager, thousands of times in virtual time.

use fastrand::Rng;
use kelpie_core::prober::TripCause;

use crate::model::{Clocks, Disruption, Policy, RaceScenario};

const RUNS: u64 = 10_000;
/// The error of right clocks and the latency of requests in the model, in seconds.
const CLOCK_NOISE: f64 = 0.1;

fn scenario(rng_seed: u64, disruption: Disruption) -> RaceScenario {
    let mut rng = Rng::with_seed(rng_seed ^ 0x9E37_79B9_7F4A_7C15);
    // 2 to 500 nodes, small clusters as often as large ones.
    let nodes = (2.0_f64.ln() + rng.f64() * 250.0_f64.ln()).exp().round() as usize;
    RaceScenario {
        nodes: nodes.clamp(2, 500),
        grace: *[40.0, 50.0].get(rng.usize(0..2)).unwrap(),
        interval: *[10.0, 30.0].get(rng.usize(0..2)).unwrap(),
        clocks: [
            Clocks::Right,
            Clocks::Right,
            Clocks::SomeWrong,
            Clocks::OursWrong,
        ][rng.usize(0..4)],
        disruption,
        policy: Policy::Deadline,
        flaky: 0.0,
        rng_seed,
    }
}

#[test]
fn no_node_turns_unknown_in_any_partition() {
    let mut lost = Vec::new();
    for rng_seed in 0..RUNS {
        let scenario = scenario(rng_seed, Disruption::Partition);
        let report = scenario.run();
        if report.unknown > 0 || report.fenced_after.is_none() {
            lost.push((scenario, report));
        }
    }
    for (scenario, report) in lost.iter().take(10) {
        println!("{scenario:?}\n    {report:?}");
    }
    assert!(lost.is_empty(), "{} of {RUNS} partitions lost", lost.len());
}

#[test]
fn partial_partition_is_fenced_at_failure_fraction() {
    let mut rng = Rng::with_seed(2);
    for rng_seed in 0..RUNS / 5 {
        let share = 0.6 + rng.f64() * 0.4;
        let scenario = scenario(rng_seed, Disruption::PartialPartition { share });
        let report = scenario.run();
        assert!(report.fenced_after.is_some(), "{scenario:?}\n{report:?}");
        assert_eq!(report.unknown, 0, "{scenario:?}\n{report:?}");
    }
    for rng_seed in 0..RUNS / 10 {
        let share = rng.f64() * 0.5;
        let clocks = Clocks::Right;
        let scenario = RaceScenario {
            nodes: 50,
            clocks,
            ..scenario(rng_seed, Disruption::PartialPartition { share })
        };
        let report = scenario.run();
        assert!(report.tripped_after.is_none(), "{scenario:?}\n{report:?}");
    }
}

#[test]
fn flaky_lists_rarely_lose_partitions() {
    for (flaky, allowed) in [(0.05, RUNS / 1_000), (0.2, RUNS / 100)] {
        let lost = (0..RUNS / 2)
            .map(|rng_seed| RaceScenario {
                flaky,
                clocks: Clocks::Right,
                ..scenario(rng_seed, Disruption::Partition)
            })
            .filter(|scenario| scenario.run().unknown > 0)
            .count() as u64;
        println!(
            "{lost} of {} partitions lost with {flaky} of the lists failing",
            RUNS / 2
        );
        assert!(
            lost * 2 <= allowed,
            "{lost} lost with {flaky} of the lists failing"
        );
    }
}

#[test]
fn harmless_disruptions_fence_only_with_cause() {
    let mut rng = Rng::with_seed(1);
    let mut wrong = Vec::new();
    let (mut fences, mut last_calls, mut wrong_clocks) = (0, 0, 0);
    for rng_seed in 0..RUNS {
        let disruption = match rng.u8(0..8) {
            0..=2 => Disruption::Hiccup {
                seconds: 10.0 + rng.f64() * 15.0,
            },
            3 => Disruption::RollingRestart,
            4 => Disruption::Autoscaling,
            5 => Disruption::OneDeadNode,
            6 => Disruption::ApiOutage {
                seconds: 5.0 + rng.f64() * 85.0,
            },
            _ => Disruption::ListGap {
                seconds: 5.0 + rng.f64() * 85.0,
            },
        };
        let scenario = scenario(rng_seed, disruption);
        let report = scenario.run();
        if report.tripped_after.is_none() {
            continue;
        }
        fences += 1;
        let last_call = report.cause == Some(TripCause::LastCall)
            && report.longest_silence >= scenario.grace - 3.0 - CLOCK_NOISE;
        if matches!(disruption, Disruption::ApiOutage { .. }) {
            wrong.push((scenario, report));
        } else if report.truly_tripped {
            // Enough leases were really expired.
        } else if last_call {
            last_calls += 1;
        } else if scenario.clocks != Clocks::Right && report.nearly_tripped {
            // The error of a wrong clock is known only within bounds. A renewal is dated to the
            // earliest instant within them, so that a fence is never late.
            wrong_clocks += 1;
        } else {
            wrong.push((scenario, report));
        }
    }
    for (scenario, report) in wrong.iter().take(10) {
        println!("{scenario:?}\n    {report:?}");
    }
    println!(
        "{RUNS} harmless disruptions: {fences} fences, {last_calls} by last call, {wrong_clocks} \
         too early because of wrong clocks"
    );
    assert!(
        wrong.is_empty(),
        "{} of {RUNS} disruptions were fenced without cause",
        wrong.len()
    );
    assert!(last_calls * 200 < RUNS, "last calls are not rare");
    assert!(wrong_clocks * 50 < RUNS, "wrong clocks fence too often");
}
