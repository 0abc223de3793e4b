//! Limits on a landscape's size and speed. Run with `--profile dist -- --ignored`.

use std::time::{Duration, Instant};

use kelpie_core::Time;
use kelpie_sim::scenario::Scenario;
use kelpie_sim::{Landscape, LandscapePlan, SimClock};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::replica::prober;

/// The kubelets' renew interval. An actor that lags behind by more has missed a renewal, and a
/// machine that does not keep up lags further and further behind.
const RENEWAL: Duration = Duration::from_secs(10);

/// Returns the resident memory of this process, in megabytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap() / 1_024
}

#[test]
#[ignore = "takes minutes: cargo xtask bench landscape"]
#[expect(clippy::disallowed_methods, reason = "measures wall-clock time")]
fn simulates_a_day_in_minutes() {
    let started = Instant::now();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let damage = runtime.block_on(async {
        fastrand::seed(1);
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::in_process(&LandscapePlan::with_size(50, 10), &clock).unwrap();
        let driven = landscape.clone();
        let driver = tokio::spawn(async move { driven.run().await });
        let watchdog = prober(&landscape, "kelpie-0", false);
        for _ in 0..24 {
            landscape.play(&Scenario::built_in("partition").unwrap());
            sleep(Duration::from_hours(1)).await;
        }
        watchdog.stop().await.unwrap();
        driver.abort();
        landscape.damage()
    });
    let took = started.elapsed();
    println!("| 24 simulated hours of 50 clusters with 10 nodes and the prober | |");
    println!("|---|---|");
    println!("| took | {:.1} s |", took.as_secs_f64());
    println!("| resident | {} MB |", resident());
    println!("| fences | {} |", damage.margins.len());
    println!("| nodes gone Unknown | {} |\n", damage.nodes_unknown);
    assert_eq!(damage.nodes_unknown, 0);
    assert_eq!(damage.margins.len(), 24 * 17);
    assert!(took < Duration::from_mins(5), "{took:?}");
}

#[test]
#[ignore = "takes minutes: cargo xtask bench landscape"]
#[expect(clippy::disallowed_methods, reason = "measures wall-clock time")]
fn runs_200000_nodes_at_real_speed() {
    let started = Instant::now();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape =
            Landscape::in_process(&LandscapePlan::with_size(2_000, 100), &clock).unwrap();
        println!("| 2,000 clusters with 100 nodes at real speed | |");
        println!("|---|---|");
        println!("| made in | {:.1} s |", started.elapsed().as_secs_f64());
        println!("| resident then | {} MB |", resident());
        let driven = landscape.clone();
        let driver = tokio::spawn(async move { driven.run().await });
        let watchdog = prober(&landscape, "kelpie-0", false);
        // Catch up with the time that creating the landscape took.
        sleep(Duration::from_secs(20)).await;
        println!(
            "| behind at first | {} ms |",
            landscape.take_lag().as_millis()
        );
        let mut worst = Duration::ZERO;
        for minute in 1..=2 {
            sleep(Duration::from_mins(1)).await;
            let lag = landscape.take_lag();
            println!(
                "| behind at most in minute {minute} | {} ms |",
                lag.as_millis()
            );
            worst = worst.max(lag);
        }
        let megabytes = resident();
        println!("| resident after that, with the prober | {megabytes} MB |\n");
        watchdog.crash();
        driver.abort();
        assert_eq!(landscape.damage().nodes_unknown, 0);
        assert!(worst < RENEWAL, "{worst:?}");
        assert!(megabytes < 1_024, "{megabytes}");
    });
}
