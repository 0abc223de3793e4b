//! Instruction counts, which are the same on every machine and under any load.

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};

use crate::command::{self, build_executable, program};

/// A benchmark with the number of instructions that it may execute.
pub(crate) struct InstructionBudget {
    /// The description of the benchmark in messages.
    name: &'static str,
    package: &'static str,
    bench: &'static str,
    /// The arguments that set the size of the benchmark.
    size: [&'static str; 2],
    /// The flag that sets the number of repetitions.
    repeat_flag: &'static str,
    /// The repetitions of two runs. Their difference excludes the start of the program.
    repetitions: [u64; 2],
    /// The number of units in one repetition.
    units: u64,
    /// The name of a unit, such as "lease".
    unit: &'static str,
    /// The maximum number of instructions per unit.
    limit: u64,
}

/// The cost of a decision over many leases.
pub(crate) const DECISION: InstructionBudget = InstructionBudget {
    name: "decision over 5000 leases",
    package: "kelpie-core",
    bench: "decision",
    size: ["--leases", "5000"],
    repeat_flag: "--rounds",
    repetitions: [20, 120],
    units: 5_000,
    unit: "lease",
    limit: 250,
};

/// The cost of samples in the collector's pipeline. The limit leaves some room, because libraries
/// choose their search and copy routines by the processor.
pub(crate) const STREAM: InstructionBudget = InstructionBudget {
    name: "collecting 20020 samples",
    package: "kelpie-collector",
    bench: "stream",
    size: ["--samples", "20020"],
    repeat_flag: "--ticks",
    repetitions: [1, 4],
    units: 20_020,
    unit: "sample",
    limit: 7_000,
};

impl InstructionBudget {
    /// Counts the instructions and fails if they exceed the limit. Returns a summary.
    pub(crate) fn check(&self) -> Result<String> {
        if !command::is_installed("valgrind") {
            bail!("valgrind is missing, which counts the instructions: `apt-get install valgrind`");
        }
        let bench = build_executable(&[
            "bench",
            "--profile",
            command::DIST,
            "--quiet",
            "--no-run",
            &format!("--package={}", self.package),
            &format!("--bench={}", self.bench),
        ])?;
        let [few, many] = self.repetitions;
        let cost = self.per_unit(self.count(&bench, few)?, self.count(&bench, many)?)?;
        let Self {
            name, unit, limit, ..
        } = self;
        let summary = format!("{cost} instructions per {unit}, budget {limit}");
        println!("{name}: {summary}");
        if cost > *limit {
            bail!("{name} costs {summary}: find what was added to the path of every {unit}");
        }
        Ok(summary)
    }

    fn per_unit(&self, few: u64, many: u64) -> Result<u64> {
        let [fewer, more] = self.repetitions;
        let spent = many.checked_sub(few).with_context(|| {
            let flag = self.repeat_flag;
            format!("more repetitions took fewer instructions: does the benchmark obey {flag}?")
        })?;
        Ok(spent.div_ceil((more - fewer) * self.units))
    }

    /// Counts all instructions of one run.
    fn count(&self, bench: &Path, repetitions: u64) -> Result<u64> {
        let profile = format!("kelpie-{}-{}-{repetitions}", self.bench, process::id());
        let profile = env::temp_dir().join(profile);
        let mut run = program("valgrind", &["--quiet", "--tool=callgrind"]);
        run.arg(format!("--callgrind-out-file={}", profile.display()));
        run.arg(bench).args(self.size);
        run.args([self.repeat_flag, &repetitions.to_string()]);
        let output = command::output(&mut run)?;
        let text = fs::read_to_string(&profile);
        // An error means that there is no file, which is fine.
        let _ = fs::remove_file(&profile);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!(
                "the benchmark failed under valgrind ({}):\n{stderr}",
                output.status
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
    count.parse().context("valgrind's total is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_the_rounded_up_difference_of_runs() {
        let per_lease = |few, many| DECISION.per_unit(few, many);
        assert_eq!(per_lease(1_000, 1_000 + 100 * 5_000 * 7).unwrap(), 7);
        assert_eq!(per_lease(1_000, 1_001 + 100 * 5_000 * 7).unwrap(), 8);
        assert!(per_lease(2, 1).is_err());
    }

    #[test]
    fn total_is_parsed_from_a_profile() {
        let profile = "version: 1\nevents: Ir\nsummary: 12345\n\nfn=(1) main\n3 7\n";
        assert_eq!(total(profile).unwrap(), 12_345);
        assert_eq!(total("events: Ir\ntotals: 99\n").unwrap(), 99);
        assert!(total("events: Ir\n").is_err());
    }
}
