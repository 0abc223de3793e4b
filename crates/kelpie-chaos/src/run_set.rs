//! Many chaos runs in parallel.

use std::collections::BTreeMap;
use std::env;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::run::Counts;
use crate::{ChaosRun, Subject};

/// A range of runs. The number of a run is its RNG seed.
#[derive(Clone, Copy, Debug)]
pub struct RunSet {
    /// The number of the first run.
    pub first: u64,
    /// The number of runs.
    pub count: u64,
    /// The time in which faults occur in each run.
    pub length: Duration,
}

impl RunSet {
    /// The runs of an ordinary test.
    pub const DEFAULT: Self = Self {
        first: 0,
        count: 200,
        length: Duration::from_mins(10),
    };

    /// Returns the runs that `cargo xtask sim` requests through the environment.
    pub fn from_env() -> Self {
        fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
            env::var(name).ok()?.parse().ok()
        }
        let hours = number("KELPIE_SIM_HOURS").filter(|hours| (0.0..=1e6).contains(hours));
        let length = hours.map(|hours: f64| Duration::from_secs_f64(hours * 3_600.0));
        let run = number("KELPIE_SIM_SEED");
        let count = run.map_or(number("KELPIE_SIM_SEEDS"), |_| Some(1));
        Self {
            first: run.unwrap_or(0),
            count: count.unwrap_or(Self::DEFAULT.count),
            length: length.unwrap_or(Self::DEFAULT.length),
        }
    }

    /// Returns one line with the fingerprint of each run, in the order of their numbers.
    pub fn fingerprints<S: Subject>(&self) -> String {
        let lines = Mutex::new(BTreeMap::new());
        self.for_each_run(|rng_seed| {
            let line = match ChaosRun::new::<S>(rng_seed, self.length).run::<S>() {
                Ok(outcome) => format!("{rng_seed:>3} {:016x}\n", outcome.fingerprint),
                Err(error) => format!("{rng_seed:>3} {error}\n"),
            };
            lines.lock().insert(rng_seed, line);
            ControlFlow::Continue(())
        });
        lines.into_inner().into_values().collect()
    }

    /// Runs `S` on all processors, until a run fails. Returns the counters of all runs, or the
    /// report of the one that failed.
    pub fn run<S: Subject>(&self) -> Result<Vec<Counts<S>>, String> {
        let done = Mutex::new((Vec::new(), None));
        self.for_each_run(|rng_seed| {
            let chaos = ChaosRun::new::<S>(rng_seed, self.length);
            let outcome = chaos.run::<S>();
            let mut done = done.lock();
            match outcome {
                Ok(outcome) if outcome.violations.is_empty() => {
                    done.0.push(outcome.counts);
                    ControlFlow::Continue(())
                }
                _ => {
                    done.1.get_or_insert(chaos);
                    ControlFlow::Break(())
                }
            }
        });
        match done.into_inner() {
            (counts, None) => Ok(counts),
            (_, Some(chaos)) => {
                let report = chaos.failure_report::<S>(self.length);
                Err(report.unwrap_or_else(|error| error.to_string()))
            }
        }
    }

    /// Calls `each` with the number of each run, on all processors. After a `Break` no further run
    /// starts.
    pub fn for_each_run(&self, each: impl Fn(u64) -> ControlFlow<()> + Sync) {
        let end = self.first.saturating_add(self.count);
        let next = AtomicU64::new(self.first);
        let is_stopped = AtomicBool::new(false);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !is_stopped.load(Ordering::Relaxed) {
                        let rng_seed = next.fetch_add(1, Ordering::Relaxed);
                        if rng_seed >= end {
                            return;
                        }
                        if each(rng_seed).is_break() {
                            is_stopped.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
    }
}
