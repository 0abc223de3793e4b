//! `cargo xtask test`: the one test command.

use std::num::NonZero;
use std::process::Command;
use std::{env, thread};

use anyhow::{Result, bail};

use crate::command::{cargo, run as run_command};
use crate::instructions::{DECISION, STREAM};
use crate::stopwatch::{Stopwatch, Took};
use crate::{generate, packages, second_try, tidy, tools};

/// Check everything: the one test command.
///
/// Checks format, lints, house rules, generated docs and API docs; provides what is missing (Debian
/// packages, real servers built from the pins in tools/); runs every test and doctest, and holds the
/// instruction budget of a decision. Stops at the first step that fails. Each step says how long it
/// took.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out what needs real servers or other programs: for between edits
    #[arg(long)]
    fast: bool,
    /// Also run the tests that take minutes of waiting: for before a release
    #[arg(long, conflicts_with = "fast")]
    long: bool,
}

/// How many tests of a program run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// What a step has to say in the summary.
type Note = String;

struct Step {
    name: &'static str,
    /// True if `--fast` leaves it out.
    slow: bool,
    check: fn(&Arguments) -> Result<Note>,
}

const STEPS: [Step; 9] = [
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
    step("tidy", |_| tidy::run().map(|()| Note::new())),
    step("gen", |_| generate::check().map(|()| Note::new())),
    step("docs", |_| docs()),
    slow("packages", |_| packages::provide()),
    slow("servers", |_| tools::provide().map(|(_, did)| did)),
    step("tests", tests),
    slow("budget", budget),
];

const fn step(name: &'static str, check: fn(&Arguments) -> Result<Note>) -> Step {
    let slow = false;
    Step { name, slow, check }
}

const fn slow(name: &'static str, check: fn(&Arguments) -> Result<Note>) -> Step {
    let slow = true;
    Step { name, slow, check }
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

fn tests(arguments: &Arguments) -> Result<Note> {
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if arguments.fast {
        tests.args(["--exclude", "kelpie-e2e"]);
    }
    let late = second_try::run_tests(with_threads(&mut tests))?;
    if arguments.long {
        run_cargo(&["test", "--package", "kelpie-e2e", "--", "--ignored"])?;
    }
    if late.is_empty() {
        return Ok(Note::new());
    }
    Ok(format!(
        "only at the second try, alone: {}",
        late.join(", ")
    ))
}

/// One thread more than there are cores, unless somebody says otherwise: most tests on real servers
/// wait most of the time. With many more, those that are about time would wait for each other.
fn with_threads(tests: &mut Command) -> &mut Command {
    if env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        tests.env(THREADS, (cores + 1).to_string());
    }
    tests
}

/// What a collector needs takes minutes to build with all optimisations: before a release only.
fn budget(arguments: &Arguments) -> Result<Note> {
    let decision = DECISION.check()?;
    if !arguments.long {
        return Ok(decision);
    }
    Ok(format!("{decision}; {}", STREAM.check()?))
}

/// How a step ended.
enum End {
    Passed(Took, Note),
    Failed(Took),
    LeftOut,
    NotReached,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all = Stopwatch::start();
    let mut ends: Vec<(&str, End)> = Vec::new();
    let mut failure = None;
    for step in &STEPS {
        let end = if failure.is_some() {
            End::NotReached
        } else if arguments.fast && step.slow {
            End::LeftOut
        } else {
            println!("\n==> {}", step.name);
            let watch = Stopwatch::start();
            match (step.check)(arguments) {
                Ok(note) => End::Passed(watch.read(), note),
                Err(error) => {
                    failure = Some((step.name, error));
                    End::Failed(watch.read())
                }
            }
        };
        ends.push((step.name, end));
    }
    println!("\n{}total     {:>7}", summary(&ends), all.read());
    match failure {
        None => Ok(()),
        Some((name, error)) => bail!("step {name}: {error:#}"),
    }
}

fn summary(ends: &[(&str, End)]) -> String {
    let line = |(name, end): &(&str, End)| {
        let line = match end {
            End::Passed(took, note) => format!("{name:<9} {took:>7}  ok      {note}"),
            End::Failed(took) => format!("{name:<9} {took:>7}  FAILED"),
            End::LeftOut => format!("{name:<9} {:>7}  left out by --fast", "-"),
            End::NotReached => format!("{name:<9} {:>7}  did not run", "-"),
        };
        format!("{}\n", line.trim_end())
    };
    ends.iter().map(line).collect()
}

#[cfg(test)]
mod tests_of_the_summary {
    use super::*;

    #[test]
    fn the_summary_has_a_line_for_each_step_also_for_those_that_did_not_run() {
        let took = Stopwatch::start().read();
        let ends = [
            ("packages", End::LeftOut),
            ("tidy", End::Passed(took, "fine".into())),
            ("tests", End::Failed(took)),
            ("budget", End::NotReached),
        ];
        assert_eq!(
            summary(&ends),
            "packages        -  left out by --fast\n\
             tidy         0.0s  ok      fine\n\
             tests        0.0s  FAILED\n\
             budget          -  did not run\n"
        );
    }
}
