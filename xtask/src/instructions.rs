//! What a decision costs, in instructions: the same on every machine and under any load.

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};

use crate::command::{self, build_executable, program};

/// A decision may cost this many instructions per lease.
const BUDGET: u64 = 250;
const LEASES: u64 = 5_000;
/// Two runs; their difference is the rounds alone, without the start of the program.
const ROUNDS: [u64; 2] = [20, 120];

/// Fails if a decision costs more than its budget, and says what it costs.
pub(crate) fn check() -> Result<String> {
    if !command::is_installed("valgrind") {
        bail!("valgrind is missing: `apt-get install valgrind`, it counts the instructions");
    }
    let bench = build_executable(&[
        "bench",
        "--quiet",
        "--no-run",
        "--package=kelpie-core",
        "--bench=decision",
    ])?;
    let [few, many] = ROUNDS;
    let cost = per_lease(count(&bench, few)?, count(&bench, many)?)?;
    let said = format!("{cost} instructions per lease, budget {BUDGET}");
    println!("decision over {LEASES} leases: {said}");
    if cost > BUDGET {
        bail!("a decision costs {said}: find what was added to the path of every lease");
    }
    Ok(said)
}

fn per_lease(few: u64, many: u64) -> Result<u64> {
    let [fewer, more] = ROUNDS;
    let spent = many
        .checked_sub(few)
        .context("more rounds took fewer instructions: does the benchmark obey --rounds?")?;
    Ok(spent.div_ceil((more - fewer) * LEASES))
}

/// All instructions of one run.
fn count(bench: &Path, rounds: u64) -> Result<u64> {
    let profile = env::temp_dir().join(format!("kelpie-decision-{}-{rounds}", process::id()));
    let mut run = program("valgrind", &["--quiet", "--tool=callgrind"]);
    run.arg(format!("--callgrind-out-file={}", profile.display()));
    run.arg(bench);
    run.args(["--rounds", &rounds.to_string()]);
    run.args(["--leases", &LEASES.to_string()]);
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
