//! What something costs, in instructions: the same on every machine and under any load.

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};

use crate::command::{self, build_executable, program};

/// A benchmark that counts its instructions, and how many it may take.
pub(crate) struct Budget {
    /// What is counted.
    name: &'static str,
    package: &'static str,
    bench: &'static str,
    /// How large the benchmark is.
    size: [&'static str; 2],
    /// How it is told how often; two runs, whose difference is the repetitions alone, without the
    /// start of the program.
    often: &'static str,
    counts: [u64; 2],
    /// Units in a repetition, and what they are.
    units: u64,
    unit: &'static str,
    /// Instructions that a unit may take.
    limit: u64,
}

/// A decision over many leases.
pub(crate) const DECISION: Budget = Budget {
    name: "decision over 5000 leases",
    package: "kelpie-core",
    bench: "decision",
    size: ["--leases", "5000"],
    often: "--rounds",
    counts: [20, 120],
    units: 5_000,
    unit: "lease",
    limit: 250,
};

/// Samples on their way through a collector. The processor decides how a library searches and
/// copies, so there is some room.
pub(crate) const STREAM: Budget = Budget {
    name: "collecting 20020 samples",
    package: "kelpie-collector",
    bench: "stream",
    size: ["--samples", "20020"],
    often: "--ticks",
    counts: [1, 4],
    units: 20_020,
    unit: "sample",
    limit: 7_000,
};

impl Budget {
    /// Fails if it costs more than it may, and says what it costs.
    pub(crate) fn check(&self) -> Result<String> {
        if !command::is_installed("valgrind") {
            bail!("valgrind is missing: `apt-get install valgrind`, it counts the instructions");
        }
        let bench = build_executable(&[
            "bench",
            "--quiet",
            "--no-run",
            &format!("--package={}", self.package),
            &format!("--bench={}", self.bench),
        ])?;
        let [few, many] = self.counts;
        let cost = self.per_unit(self.count(&bench, few)?, self.count(&bench, many)?)?;
        let Self {
            name, unit, limit, ..
        } = self;
        let said = format!("{cost} instructions per {unit}, budget {limit}");
        println!("{name}: {said}");
        if cost > *limit {
            bail!("{name} costs {said}: find what was added to the path of every {unit}");
        }
        Ok(said)
    }

    fn per_unit(&self, few: u64, many: u64) -> Result<u64> {
        let [fewer, more] = self.counts;
        let spent = many.checked_sub(few).with_context(|| {
            let often = self.often;
            format!("more of it took fewer instructions: does the benchmark obey {often}?")
        })?;
        Ok(spent.div_ceil((more - fewer) * self.units))
    }

    /// All instructions of one run.
    fn count(&self, bench: &Path, often: u64) -> Result<u64> {
        let profile = format!("kelpie-{}-{}-{often}", self.bench, process::id());
        let profile = env::temp_dir().join(profile);
        let mut run = program("valgrind", &["--quiet", "--tool=callgrind"]);
        run.arg(format!("--callgrind-out-file={}", profile.display()));
        run.arg(bench).args(self.size);
        run.args([self.often, &often.to_string()]);
        let done = command::output(&mut run)?;
        let text = fs::read_to_string(&profile);
        // Gone or never written: either way nothing is left behind.
        let _ = fs::remove_file(&profile);
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            bail!(
                "the benchmark failed under valgrind ({}):\n{said}",
                done.status
            );
        }
        total(&text.context("valgrind wrote no profile")?)
    }
}

fn total(profile: &str) -> Result<u64> {
    let line = profile.lines().find_map(|line| {
        line.strip_prefix("summary:")
            .or_else(|| line.strip_prefix("totals:"))
    });
    let line = line.context("valgrind's profile has no total")?;
    let count = line.split_whitespace().next().unwrap_or_default();
    count.parse().context("valgrind's total is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_difference_of_the_runs_rounded_up() {
        let per_lease = |few, many| DECISION.per_unit(few, many);
        assert_eq!(per_lease(1_000, 1_000 + 100 * 5_000 * 7).unwrap(), 7);
        assert_eq!(per_lease(1_000, 1_001 + 100 * 5_000 * 7).unwrap(), 8);
        assert!(per_lease(2, 1).is_err());
    }

    #[test]
    fn the_total_is_read_from_a_profile() {
        let profile = "version: 1\nevents: Ir\nsummary: 12345\n\nfn=(1) main\n3 7\n";
        assert_eq!(total(profile).unwrap(), 12_345);
        assert_eq!(total("events: Ir\ntotals: 99\n").unwrap(), 99);
        assert!(total("events: Ir\n").is_err());
    }
}
