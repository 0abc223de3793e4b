//! A second try, alone, for end-to-end tests that failed among the others.
//!
//! They talk to real servers in real time, several at once on whatever machine there is, and now and then one
//! misses its moment because another took the processor. Such a test passes alone, and the summary names it. A
//! test that finds a fault fails again. All other tests are about values or simulated time: they get one try.

use std::process::{Command, ExitStatus};

use anyhow::{Result, bail};

use crate::command::{cargo, follow};

/// With more failures than this, something is broken.
const FEW: usize = 5;

/// Runs tests with `cargo test`; gives the names of those that passed only at the second try.
pub(crate) fn run_tests(tests: &mut Command) -> Result<Vec<String>> {
    let (told, status) = listen(tests)?;
    if status.success() {
        return Ok(Vec::new());
    }
    let Some(failed) = told.worth_a_second_try() else {
        bail!("tests failed ({status})");
    };
    for name in &failed {
        println!("\n==> {name} failed among others: once more, alone");
        let alone = [
            "test",
            "--package",
            "kelpie-e2e",
            "--test",
            "it",
            "--",
            "--exact",
        ];
        let (told, status) = listen(cargo(&alone).arg(name))?;
        if !(status.success() && told.passed.contains(name)) {
            bail!("{name} failed, and there is no second try where it passed");
        }
    }
    Ok(failed)
}

/// Runs to the end, passing on what is printed.
fn listen(tests: &mut Command) -> Result<(Told, ExitStatus)> {
    let mut told = Told::default();
    let status = follow(tests, |line| {
        println!("{line}");
        told.hear(line);
    })?;
    Ok((told, status))
}

/// What test programs told on their standard output.
#[derive(Default)]
struct Told {
    begun: usize,
    ended: usize,
    passed: Vec<String>,
    failed: Vec<String>,
}

impl Told {
    fn hear(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            match test.rsplit_once(" ... ") {
                Some((name, "ok")) => self.passed.push(name.to_owned()),
                Some((name, "FAILED")) => self.failed.push(name.to_owned()),
                _ => self.ended += usize::from(test.starts_with("result: ")),
            }
        } else if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            self.begun += 1;
        }
    }

    /// The failed tests, unless there are many, or none because nothing could be built, or a program died.
    fn worth_a_second_try(self) -> Option<Vec<String>> {
        let is_whole = self.begun == self.ended;
        let are_few = (1..=FEW).contains(&self.failed.len());
        (is_whole && are_few).then_some(self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Told {
        let mut told = Told::default();
        for line in lines {
            told.hear(line);
        }
        told
    }

    const END: &str = "test result: FAILED. 1 passed; 1 failed; 0 ignored";

    #[test]
    fn a_few_failures_are_worth_a_second_try() {
        let told = told(&[
            "running 2 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            END,
        ]);
        assert_eq!(told.passed, ["a::b"]);
        assert_eq!(told.worth_a_second_try(), Some(vec!["a::c".to_owned()]));
    }

    #[test]
    fn many_failures_a_death_and_a_failed_build_are_not() {
        let many = vec!["test a ... FAILED"; FEW + 1];
        assert_eq!(told(&many).worth_a_second_try(), None);
        let death = [
            "running 1 test",
            "test a ... FAILED",
            END,
            "running 3 tests",
        ];
        assert_eq!(told(&death).worth_a_second_try(), None);
        assert_eq!(told(&[]).worth_a_second_try(), None);
    }
}
