//! `cargo xtask test`: runs every check.

use std::num::NonZero;
use std::process::Command;
use std::{env, thread};

use anyhow::{Result, bail};

use crate::command::{cargo, run as run_command};
use crate::instruction_budget::{DECISION, STREAM};
use crate::stopwatch::{Elapsed, Stopwatch};
use crate::{generate, image, packages, retry, tidy, tools};

/// Run every check: the one test command.
///
/// Checks format, lints, house rules, generated files and API docs; installs what is missing
/// (Debian packages, real servers built from the pins in tools/); runs every test and doctest, and
/// checks the instruction budget of a decision. Stops at the first step that fails, and prints how
/// long each step took.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Skip everything that needs real servers or other programs, for use between edits
    #[arg(long)]
    fast: bool,
    /// Also run the tests that wait for minutes, for use before a release
    #[arg(long, conflicts_with = "fast")]
    long: bool,
}

/// The variable that sets how many tests of a program run concurrently.
const THREADS: &str = "RUST_TEST_THREADS";

/// The remark of a step in the summary; may be empty.
type Note = String;

struct TestStep {
    name: &'static str,
    /// True if `--fast` skips it.
    slow: bool,
    check: fn(&TestArgs) -> Result<Note>,
}

const STEPS: [TestStep; 10] = [
    step("format", |_| run_cargo(&["fmt", "--all", "--check"])),
    step("clippy", |_| {
        run_cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    }),
    step("image", |_| image::check()),
    step("tidy", |_| tidy::run().map(|()| Note::new())),
    step("gen", |_| generate::check().map(|()| Note::new())),
    step("docs", |_| docs()),
    slow("packages", |_| packages::provide()),
    slow("servers", |_| tools::provide().map(|(_, summary)| summary)),
    step("tests", tests),
    slow("budget", budget),
];

const fn step(name: &'static str, check: fn(&TestArgs) -> Result<Note>) -> TestStep {
    let slow = false;
    TestStep { name, slow, check }
}

const fn slow(name: &'static str, check: fn(&TestArgs) -> Result<Note>) -> TestStep {
    let slow = true;
    TestStep { name, slow, check }
}

fn run_cargo(args: &[&str]) -> Result<Note> {
    run_command(&mut cargo(args))?;
    Ok(Note::new())
}

fn docs() -> Result<Note> {
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    run_command(docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Note::new())
}

fn tests(arguments: &TestArgs) -> Result<Note> {
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if arguments.fast {
        tests.args(["--exclude", "kelpie-e2e"]);
    }
    let retried = retry::run_tests(with_threads(&mut tests))?;
    if arguments.long {
        run_cargo(&["test", "--package", "kelpie-e2e", "--", "--ignored"])?;
    }
    if retried.is_empty() {
        return Ok(Note::new());
    }
    Ok(format!(
        "passed only when retried alone: {}",
        retried.join(", ")
    ))
}

/// Sets one thread more than there are cores, unless the variable is set already. Tests on real
/// servers spend most of their time waiting, but with many more threads, tests about timing would
/// delay each other.
fn with_threads(tests: &mut Command) -> &mut Command {
    if env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        tests.env(THREADS, (cores + 1).to_string());
    }
    tests
}

/// Checks the instruction budgets. The collector's benchmark takes minutes to build with all
/// optimisations, so it is checked only before a release.
fn budget(arguments: &TestArgs) -> Result<Note> {
    let decision = DECISION.check()?;
    if !arguments.long {
        return Ok(decision);
    }
    Ok(format!("{decision}; {}", STREAM.check()?))
}

/// The result of a step.
enum StepResult {
    Passed(Elapsed, Note),
    Failed(Elapsed),
    /// Left out because of `--fast`.
    Skipped,
    /// An earlier step failed.
    NotRun,
}

pub(crate) fn run(arguments: &TestArgs) -> Result<()> {
    let total = Stopwatch::start();
    let mut results: Vec<(&str, StepResult)> = Vec::new();
    let mut failure = None;
    for step in &STEPS {
        let result = if failure.is_some() {
            StepResult::NotRun
        } else if arguments.fast && step.slow {
            StepResult::Skipped
        } else {
            println!("\n==> {}", step.name);
            let watch = Stopwatch::start();
            match (step.check)(arguments) {
                Ok(note) => StepResult::Passed(watch.read(), note),
                Err(error) => {
                    failure = Some((step.name, error));
                    StepResult::Failed(watch.read())
                }
            }
        };
        results.push((step.name, result));
    }
    println!("\n{}total     {:>7}", summary(&results), total.read());
    match failure {
        None => Ok(()),
        Some((name, error)) => bail!("step {name}: {error:#}"),
    }
}

fn summary(results: &[(&str, StepResult)]) -> String {
    let line = |(name, result): &(&str, StepResult)| {
        let line = match result {
            StepResult::Passed(elapsed, note) => format!("{name:<9} {elapsed:>7}  ok      {note}"),
            StepResult::Failed(elapsed) => format!("{name:<9} {elapsed:>7}  FAILED"),
            StepResult::Skipped => format!("{name:<9} {:>7}  skipped by --fast", "-"),
            StepResult::NotRun => format!("{name:<9} {:>7}  did not run", "-"),
        };
        format!("{}\n", line.trim_end())
    };
    results.iter().map(line).collect()
}

#[cfg(test)]
mod summary_tests {
    use super::*;

    #[test]
    fn summary_has_a_line_for_every_step() {
        let elapsed = Stopwatch::start().read();
        let results = [
            ("packages", StepResult::Skipped),
            ("tidy", StepResult::Passed(elapsed, "fine".into())),
            ("tests", StepResult::Failed(elapsed)),
            ("budget", StepResult::NotRun),
        ];
        assert_eq!(
            summary(&results),
            "packages        -  skipped by --fast\n\
             tidy         0.0s  ok      fine\n\
             tests        0.0s  FAILED\n\
             budget          -  did not run\n"
        );
    }
}
