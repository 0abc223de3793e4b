//! The restores of all clusters of a seed cluster.

use std::fmt;

use tokio::time::Instant;

use crate::percentiles::Percentiles;

/// The restore of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterRestore {
    /// The time at which the last target was restored.
    pub(super) last: Instant,
    /// The times of all changes of the targets.
    pub(super) writes: Vec<Instant>,
}

/// The restores of all clusters. Displays as a Markdown table.
#[derive(Debug)]
pub struct RestoreReport {
    healed: Instant,
    restores: Vec<ClusterRestore>,
}

impl RestoreReport {
    pub(super) fn new(healed: Instant, restores: Vec<ClusterRestore>) -> Self {
        Self { healed, restores }
    }

    /// The number of all changes of targets.
    pub fn writes(&self) -> usize {
        self.restores
            .iter()
            .map(|restore| restore.writes.len())
            .sum()
    }

    /// The largest number of changes within a second.
    fn peak(&self) -> usize {
        let mut times: Vec<Instant> = self
            .restores
            .iter()
            .flat_map(|restore| restore.writes.clone())
            .collect();
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

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self
            .restores
            .iter()
            .map(|restore| restore.last - self.healed);
        let times = Percentiles::new(times.map(|time| time.as_secs_f64()));
        writeln!(f, "| recovery | |\n|---|---|")?;
        writeln!(
            f,
            "| all as before after the end of the outage: median, worst | {}, {} |",
            times.percentile(50),
            times.percentile(100)
        )?;
        writeln!(
            f,
            "| changes of targets: all, most in a second | {}, {} |",
            self.writes(),
            self.peak()
        )
    }
}
