//! How the clusters of a seed came back.

use std::fmt;

use tokio::time::Instant;

use crate::seconds::Seconds;

/// A cluster that is as it was.
#[derive(Debug, Clone)]
pub struct Restored {
    /// When the last target was seen as it was.
    pub(super) last: Instant,
    /// When each change of its targets was seen.
    pub(super) writes: Vec<Instant>,
}

/// All of them.
#[derive(Debug)]
pub struct Restores {
    healed: Instant,
    all: Vec<Restored>,
}

impl Restores {
    pub(super) fn new(healed: Instant, all: Vec<Restored>) -> Self {
        Self { healed, all }
    }

    /// Changes of targets, all in all.
    pub fn writes(&self) -> usize {
        self.all.iter().map(|restored| restored.writes.len()).sum()
    }

    /// The most changes that were seen in a second.
    fn peak(&self) -> usize {
        let mut times: Vec<Instant> = self.all.iter().flat_map(|one| one.writes.clone()).collect();
        times.sort();
        let within = |(number, first): (usize, &Instant)| {
            let second = *first + std::time::Duration::from_secs(1);
            times[number..]
                .iter()
                .take_while(|at| **at < second)
                .count()
        };
        times.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

impl fmt::Display for Restores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.all.iter().map(|restored| restored.last - self.healed);
        let times = Seconds::of(times.map(|time| time.as_secs_f64()));
        writeln!(f, "| recovery | |\n|---|---|")?;
        writeln!(
            f,
            "| all as before after the end of the outage: median, worst | {}, {} |",
            times.at(50),
            times.at(100)
        )?;
        writeln!(
            f,
            "| changes of targets: all, most in a second | {}, {} |",
            self.writes(),
            self.peak()
        )
    }
}
