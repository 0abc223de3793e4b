//! `cargo xtask test`: runs every check.

use anyhow::{Result, bail};

use crate::background::ServerBuild;
use crate::command::{cargo, run as run_command};
use crate::instruction_budget::{DECISION, STREAM};
use crate::stopwatch::{Elapsed, Stopwatch};
use crate::{end_to_end, generate, image, tidy};

/// Run every check: the one test command.
///
/// Checks format, lints, house rules, generated files and API docs; runs every test and doctest,
/// and checks the instruction budget of a decision. What is missing for the tests on real servers
/// (Debian packages, servers built from the pins in tools/) is installed in the background from
/// the start. Stops at the first step that fails, and prints how long each step took.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Skip everything that needs real servers or other programs, for use between edits
    #[arg(long)]
    fast: bool,
    /// Also run the tests that wait for minutes, for use before a release
    #[arg(long, conflicts_with = "fast")]
    long: bool,
}

/// The remark of a step in the summary; may be empty.
type Note = String;

struct TestStep {
    name: &'static str,
    /// True if `--fast` skips it.
    slow: bool,
    check: Check,
}

type Check = fn(&mut TestRun) -> Result<Note>;

/// What the steps share.
struct TestRun {
    long: bool,
    servers: ServerBuild,
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
    step("tests", |_| {
        run_cargo(&[
            "test",
            "--workspace",
            "--exclude",
            end_to_end::PACKAGE,
            "--no-fail-fast",
        ])
    }),
    slow("servers", |run| run.servers.wait()),
    slow("e2e", |run| end_to_end::run(run.long)),
    slow("budget", budget),
];

const fn step(name: &'static str, check: Check) -> TestStep {
    let slow = false;
    TestStep { name, slow, check }
}

const fn slow(name: &'static str, check: Check) -> TestStep {
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

/// Checks the instruction budgets. The collector's benchmark takes minutes to build with all
/// optimisations, so it is checked only before a release.
fn budget(run: &mut TestRun) -> Result<Note> {
    let decision = DECISION.check()?;
    if !run.long {
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
    let servers = if arguments.fast {
        ServerBuild::Complete
    } else {
        ServerBuild::start()?
    };
    let mut run = TestRun {
        long: arguments.long,
        servers,
    };
    let mut results: Vec<(&str, StepResult)> = Vec::new();
    let mut failure = None;
    for step in &STEPS {
        // A build that failed is reported before the next step, which may take long.
        if failure.is_none()
            && let Err(error) = run.servers.check()
        {
            failure = Some(("servers", error));
        }
        let result = if failure.is_some() {
            StepResult::NotRun
        } else if arguments.fast && step.slow {
            StepResult::Skipped
        } else {
            println!("\n==> {}", step.name);
            let watch = Stopwatch::start();
            match (step.check)(&mut run) {
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
    run.servers.leave();
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
