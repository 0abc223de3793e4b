//! The race against kube-controller-manager, thousands of times in virtual time.

use fastrand::Rng;
use kelpie_core::TripCause;

use crate::model::{Clocks, Event, Policy, Scenario};

const RUNS: u64 = 10_000;
/// What right clocks of the model are off by, and requests take, in seconds.
const CLOCK_NOISE: f64 = 0.1;

fn scenario(seed: u64, event: Event) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x9E37_79B9_7F4A_7C15);
    // 2 to 500 nodes, small clusters as often as large ones.
    let nodes = (2.0_f64.ln() + rng.f64() * 250.0_f64.ln()).exp().round() as usize;
    Scenario {
        nodes: nodes.clamp(2, 500),
        grace: *[40.0, 50.0].get(rng.usize(0..2)).unwrap(),
        interval: *[10.0, 30.0].get(rng.usize(0..2)).unwrap(),
        clocks: [
            Clocks::Right,
            Clocks::Right,
            Clocks::SomeWrong,
            Clocks::OursWrong,
        ][rng.usize(0..4)],
        event,
        policy: Policy::Deadline,
        flaky: 0.0,
        seed,
    }
}

#[test]
fn no_node_turns_unknown_in_any_partition() {
    let mut lost = Vec::new();
    for seed in 0..RUNS {
        let scenario = scenario(seed, Event::Partition);
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
fn a_part_that_is_cut_off_is_fenced_in_time_from_the_failure_fraction_on() {
    let mut rng = Rng::with_seed(2);
    for seed in 0..RUNS / 5 {
        let share = 0.6 + rng.f64() * 0.4;
        let scenario = scenario(seed, Event::PartialPartition { share });
        let report = scenario.run();
        assert!(report.fenced_after.is_some(), "{scenario:?}\n{report:?}");
        assert_eq!(report.unknown, 0, "{scenario:?}\n{report:?}");
    }
    for seed in 0..RUNS / 10 {
        let share = rng.f64() * 0.5;
        let clocks = Clocks::Right;
        let scenario = Scenario {
            nodes: 50,
            clocks,
            ..scenario(seed, Event::PartialPartition { share })
        };
        let report = scenario.run();
        assert!(report.tripped_after.is_none(), "{scenario:?}\n{report:?}");
    }
}

#[test]
fn lists_that_fail_now_and_then_lose_hardly_any_partition() {
    for (flaky, allowed) in [(0.05, RUNS / 1_000), (0.2, RUNS / 100)] {
        let lost = (0..RUNS / 2)
            .map(|seed| Scenario {
                flaky,
                clocks: Clocks::Right,
                ..scenario(seed, Event::Partition)
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
fn harmless_events_fence_only_as_the_rule_on_true_times_or_as_last_call_unless_clocks_are_wrong() {
    let mut rng = Rng::with_seed(1);
    let mut wrong = Vec::new();
    let (mut fences, mut last_calls, mut wrong_clocks) = (0, 0, 0);
    for seed in 0..RUNS {
        let event = match rng.u8(0..8) {
            0..=2 => Event::Hiccup {
                seconds: 10.0 + rng.f64() * 15.0,
            },
            3 => Event::RollingRestart,
            4 => Event::Autoscaling,
            5 => Event::OneDeadNode,
            6 => Event::ApiOutage {
                seconds: 5.0 + rng.f64() * 85.0,
            },
            _ => Event::ListGap {
                seconds: 5.0 + rng.f64() * 85.0,
            },
        };
        let scenario = scenario(seed, event);
        let report = scenario.run();
        if report.tripped_after.is_none() {
            continue;
        }
        fences += 1;
        let last_call = report.cause == Some(TripCause::LastCall)
            && report.longest_silence >= scenario.grace - 3.0 - CLOCK_NOISE;
        if matches!(event, Event::ApiOutage { .. }) {
            wrong.push((scenario, report));
        } else if report.truly_tripped {
            // The rule itself.
        } else if last_call {
            last_calls += 1;
        } else if scenario.clocks != Clocks::Right && report.nearly_tripped {
            // A wrong clock is known only to some bounds, and the earliest instant within them
            // counts: it must never be late.
            wrong_clocks += 1;
        } else {
            wrong.push((scenario, report));
        }
    }
    for (scenario, report) in wrong.iter().take(10) {
        println!("{scenario:?}\n    {report:?}");
    }
    println!(
        "{RUNS} harmless events: {fences} fences; {last_calls} were last calls, {wrong_clocks} came \
         early because of wrong clocks"
    );
    assert!(
        wrong.is_empty(),
        "{} of {RUNS} events fenced for nothing",
        wrong.len()
    );
    assert!(last_calls * 200 < RUNS, "last calls are not rare");
    assert!(wrong_clocks * 50 < RUNS, "wrong clocks fence too often");
}
