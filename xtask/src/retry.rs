//! Retries end-to-end tests that fail, one at a time.
//!
//! These tests talk to real servers in real time, and several of them run concurrently on a machine
//! of unknown speed. Sometimes a test misses its moment because another one took the processor.
//! Such a test passes when it runs alone, and the summary names it; a test that finds a bug fails
//! again. All other tests are about values or simulated time and are not retried.

use std::process::{Command, ExitStatus};

use anyhow::{Result, bail};

use crate::command::follow;

/// The maximum number of tests to retry. If more than this fail, something is broken.
const MAX_RETRIES: usize = 5;

/// Runs a test program, which `program` prepares. Returns the names of the tests that passed only
/// when retried.
pub(crate) fn run_tests(program: impl Fn() -> Command) -> Result<Vec<String>> {
    let (output, status) = run_and_parse(&mut program())?;
    if status.success() {
        return Ok(Vec::new());
    }
    let Some(failed) = output.retryable() else {
        bail!("tests failed ({status})");
    };
    for name in &failed {
        println!("\n==> {name} failed: retrying it alone");
        let (output, status) = run_and_parse(program().arg("--exact").arg(name))?;
        if !(status.success() && output.passed.contains(name)) {
            bail!("{name} failed, and failed again when retried alone");
        }
    }
    Ok(failed)
}

/// Runs a command, prints its output and parses it.
fn run_and_parse(tests: &mut Command) -> Result<(TestOutput, ExitStatus)> {
    let mut output = TestOutput::default();
    let status = follow(tests, |line| {
        println!("{line}");
        output.parse_line(line);
    })?;
    Ok((output, status))
}

/// The results found in the output of test programs.
#[derive(Default)]
struct TestOutput {
    programs_started: usize,
    programs_ended: usize,
    passed: Vec<String>,
    failed: Vec<String>,
}

impl TestOutput {
    fn parse_line(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            match test.rsplit_once(" ... ") {
                Some((name, "ok")) => self.passed.push(name.to_owned()),
                Some((name, "FAILED")) => self.failed.push(name.to_owned()),
                _ => self.programs_ended += usize::from(test.starts_with("result: ")),
            }
        } else if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            self.programs_started += 1;
        }
    }

    /// Returns the failed tests if a retry makes sense: there are few of them, the build succeeded,
    /// and no test program crashed.
    fn retryable(self) -> Option<Vec<String>> {
        let is_complete = self.programs_started == self.programs_ended;
        let are_few = (1..=MAX_RETRIES).contains(&self.failed.len());
        (is_complete && are_few).then_some(self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> TestOutput {
        let mut output = TestOutput::default();
        for line in lines {
            output.parse_line(line);
        }
        output
    }

    const END: &str = "test result: FAILED. 1 passed; 1 failed; 0 ignored";

    #[test]
    fn few_failures_are_retried() {
        let output = parse(&[
            "running 2 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            END,
        ]);
        assert_eq!(output.passed, ["a::b"]);
        assert_eq!(output.retryable(), Some(vec!["a::c".to_owned()]));
    }

    #[test]
    fn crashes_and_many_failures_are_not_retried() {
        let many = vec!["test a ... FAILED"; MAX_RETRIES + 1];
        assert_eq!(parse(&many).retryable(), None);
        let crash = [
            "running 1 test",
            "test a ... FAILED",
            END,
            "running 3 tests",
        ];
        assert_eq!(parse(&crash).retryable(), None);
        assert_eq!(parse(&[]).retryable(), None);
    }
}
