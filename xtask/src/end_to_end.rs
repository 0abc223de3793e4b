//! Runs the tests on real servers.
//!
//! Their programs are built with the whole workspace and started without cargo: a build of their
//! package alone would choose other features of a few dependencies, and compile half of the
//! workspace once more.

use std::env;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Result, ensure};
use serde_json::Value;
use xtask::cache;

use crate::command::{self, cargo, program};
use crate::retry;

/// The package of the tests on real servers.
pub(crate) const PACKAGE: &str = "kelpie-e2e";

/// The folder of the package.
const FOLDER: &str = "tests";

/// The variable that sets how many tests of a program run concurrently.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs the tests; if `long`, also those that wait for minutes. Returns a summary.
pub(crate) fn run(long: bool) -> Result<String> {
    let build = [
        "test",
        "--workspace",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    let messages = command::read(&mut cargo(&build))?;
    let programs: Vec<PathBuf> = messages.lines().filter_map(test_program).collect();
    ensure!(!programs.is_empty(), "{PACKAGE} has no tests");
    let mut retried = Vec::new();
    for program in &programs {
        println!("\n     Running {}", program.display());
        retried.extend(retry::run_tests(|| prepare(program))?);
        if long {
            command::run(prepare(program).arg("--ignored"))?;
        }
    }
    if retried.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "passed only when retried alone: {}",
        retried.join(", ")
    ))
}

/// Prepares a test program with the folder and the variables that cargo would give to it.
///
/// Unless the number of threads is set already, it is one more than there are cores. Tests on real
/// servers spend most of their time waiting, but with many more threads, tests about timing would
/// delay each other.
fn prepare(test_program: &Path) -> Command {
    let folder = cache::repository().join(FOLDER);
    let mut command = program(test_program, &[]);
    command.current_dir(&folder);
    command.env("CARGO_MANIFEST_DIR", &folder);
    if env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (cores + 1).to_string());
    }
    command
}

/// Returns the executable if this message of cargo is about a test program of the package.
fn test_program(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let package = message["package_id"].as_str()?;
    let is_ours = package.contains(&format!("#{PACKAGE}@"));
    let is_test = message["profile"]["test"] == true;
    let executable = message["executable"].as_str()?;
    (is_ours && is_test).then(|| executable.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn message(package: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///k/tests#{package}@0.1.0",
            "profile":{{"test":{test}}},"executable":"/t/it"}}"#
        )
    }

    #[test]
    fn test_programs_are_those_of_the_package() {
        assert_eq!(
            test_program(&message(PACKAGE, true)),
            Some(PathBuf::from("/t/it"))
        );
        assert_eq!(test_program(&message(PACKAGE, false)), None);
        assert_eq!(test_program(&message("kelpie-net", true)), None);
        assert_eq!(test_program("not json"), None);
    }

    #[test]
    fn package_is_in_its_folder() {
        let manifest = cache::repository().join(FOLDER).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&format!("name = \"{PACKAGE}\"")));
    }
}
