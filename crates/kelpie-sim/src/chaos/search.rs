//! Chaos by many seeds.

use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::endurance::Figures;
use super::{Chaos, Subject};

/// Which seeds are looked at, and for how long faults go on in each.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first of them.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// For how long faults go on in each.
    pub length: Duration,
}

impl Search {
    /// As in the usual test run.
    pub const USUAL: Self = Self {
        first: 0,
        count: 200,
        length: Duration::from_mins(10),
    };

    /// What `cargo xtask sim` was asked for.
    pub fn asked_for() -> Self {
        fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
            env::var(name).ok()?.parse().ok()
        }
        let hours = number("KELPIE_SIM_HOURS").filter(|hours| (0.0..=1e6).contains(hours));
        let length = hours.map(|hours: f64| Duration::from_secs_f64(hours * 3_600.0));
        let seed = number("KELPIE_SIM_SEED");
        let count = seed.map_or(number("KELPIE_SIM_SEEDS"), |_| Some(1));
        Self {
            first: seed.unwrap_or(0),
            count: count.unwrap_or(Self::USUAL.count),
            length: length.unwrap_or(Self::USUAL.length),
        }
    }

    /// One line per run with its fingerprint, for the first `count` runs.
    pub fn fingerprints<S: Subject>(&self, count: u64) -> String {
        let line = |seed: u64| {
            let outcome = Chaos::new::<S>(seed, self.length).endure::<S>();
            match outcome {
                Ok(outcome) => format!("{seed:>3} {:016x}\n", outcome.fingerprint),
                Err(error) => format!("{seed:>3} {error}\n"),
            }
        };
        let next = AtomicU64::new(self.first);
        let lines = Mutex::new(BTreeMap::new());
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.first.saturating_add(count) {
                            return;
                        }
                        let line = line(seed);
                        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                        lines.insert(seed, line);
                    }
                });
            }
        });
        let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        lines.into_values().collect()
    }

    /// Puts `S` to the test on all processors, until a seed fails. Gives the figures of each; else what is
    /// wrong, for people.
    pub fn run<S: Subject>(&self) -> Result<Vec<Figures<S>>, String> {
        let next = AtomicU64::new(self.first);
        let is_over = AtomicBool::new(false);
        let done = Mutex::new((Vec::new(), None));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.first.saturating_add(self.count) {
                            return;
                        }
                        let chaos = Chaos::new::<S>(seed, self.length);
                        let outcome = chaos.endure::<S>();
                        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                        match outcome {
                            Ok(outcome) if outcome.wrong.is_empty() => done.0.push(outcome.figures),
                            _ => {
                                is_over.store(true, Ordering::Relaxed);
                                done.1.get_or_insert(chaos);
                            }
                        }
                    }
                });
            }
        });
        match done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            (figures, None) => Ok(figures),
            (_, Some(chaos)) => {
                let story = chaos.story::<S>(self.length);
                Err(story.unwrap_or_else(|error| error.to_string()))
            }
        }
    }
}
