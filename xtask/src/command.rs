//! Runs other programs. Every error contains the command line that failed.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cache;

/// The cargo profile of what is shipped or measured, with all optimisations.
pub const DIST: &str = "dist";

/// Prepares a program that runs in the root of the repository.
pub fn program(name: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(cache::repository());
    command
}

/// Prepares the cargo that runs this process, without the variables that it set for this process.
/// Build scripts that depend on these would otherwise run again after every `cargo xtask`.
pub fn cargo(args: &[&str]) -> Command {
    let name = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = program(name, args);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command that prints to the terminal. A non-zero exit status is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    check(command, status)
}

/// Runs a command and returns its stdout. Its stderr goes to the terminal.
pub fn read(command: &mut Command) -> Result<String> {
    let output = output(command.stderr(Stdio::inherit()))?;
    check(command, output.status)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed invalid UTF-8", line(command)))
}

/// Runs a command and returns its output, whatever its exit status.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| cannot_start(command))
}

/// Runs a command and calls `each` for every line of its stdout. Returns its exit status.
pub fn follow(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| cannot_start(command))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            each(&String::from_utf8_lossy(&line?));
        }
    }
    Ok(child.wait()?)
}

/// Returns true if `program` is on the `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a cargo build and returns the path of the resulting executable.
pub fn build_executable(args: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(args);
    if let Some(folder) = coverage_target_dir() {
        build.arg("--target-dir").arg(folder);
    }
    built_executable(&mut build)
}

/// Like [`build_executable`], for a prepared command of cargo.
pub fn built_executable(build: &mut Command) -> Result<PathBuf> {
    build.arg("--message-format=json-render-diagnostics");
    let messages = read(build)?;
    let executable = messages.lines().rev().find_map(executable_in);
    executable.with_context(|| format!("`{}` built no executable", line(build)))
}

/// Returns the folder in which cargo builds.
pub fn target_dir() -> Result<PathBuf> {
    let metadata = read(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let folder = metadata["target_directory"].as_str();
    folder
        .map(PathBuf::from)
        .context("cargo metadata has no target_directory")
}

/// Returns the target folder of cargo-llvm-cov, if that runs this process. Coverage is measured
/// only for programs built there, and a build elsewhere would reuse artifacts of other builds.
fn coverage_target_dir() -> Option<PathBuf> {
    env::var_os("CARGO_LLVM_COV")?;
    let profile = PathBuf::from(env::var_os("LLVM_PROFILE_FILE")?);
    profile.parent().map(Path::to_owned)
}

fn executable_in(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}

fn check(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", line(command))
}

/// Formats the command as typed in a shell.
fn line(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let short = program.rsplit('/').next().unwrap_or_default().to_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into());
    let words: Vec<String> = [short].into_iter().chain(args).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_contain_the_command_line() {
        let error = run(&mut program("/bin/sh", &["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
        let error = run(&mut program("no-such-program", &["x"])).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `no-such-program x`");
    }

    #[test]
    fn executable_is_found_in_cargo_messages() {
        assert_eq!(executable_in(r#"{"reason":"compiler-artifact"}"#), None);
        assert_eq!(executable_in("not json"), None);
        let found = executable_in(r#"{"reason":"compiler-artifact","executable":"/t/x"}"#);
        assert_eq!(found, Some(PathBuf::from("/t/x")));
    }

    #[test]
    fn installed_programs_are_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program"));
    }
}
