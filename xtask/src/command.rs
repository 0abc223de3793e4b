//! Running other programs: every failure names the command line that failed.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cache;

/// A program started at the root of the repository.
pub fn program(name: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(cache::repository());
    command
}

/// The cargo that runs us, without the variables it set for us: build scripts that watch them
/// would run again after every `cargo xtask`.
pub fn cargo(args: &[&str]) -> Command {
    let name = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = program(name, args);
    for (name, _) in env::vars_os() {
        let ours = name.to_string_lossy();
        if ours.starts_with("CARGO_PKG_") || ours.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs to the end with our own terminal; a failure is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    check(command, status)
}

/// Runs to the end and gives what it printed; what it says on stderr is shown.
pub fn read(command: &mut Command) -> Result<String> {
    let output = output(command.stderr(Stdio::inherit()))?;
    check(command, output.status)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed what is not UTF-8", line(command)))
}

/// Runs to the end and gives all it printed, whether it failed or not.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| cannot_start(command))
}

/// Runs to the end, whether it fails or not; `each` hears every line that it prints.
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

/// True if `program` can be started by its name.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Builds with cargo and gives the executable that comes out of it.
pub fn build_executable(args: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(args);
    if let Some(folder) = instrumented() {
        build.arg("--target-dir").arg(folder);
    }
    build.arg("--message-format=json-render-diagnostics");
    let messages = read(&mut build)?;
    let executable = messages.lines().rev().find_map(executable_in);
    executable.with_context(|| format!("`{}` made no executable", line(&build)))
}

/// Where cargo-llvm-cov builds, if it runs us: only what is built there counts, and what is built
/// elsewhere would find the artifacts of other builds and take them for its own.
fn instrumented() -> Option<PathBuf> {
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

/// The command as one would type it.
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
    fn a_failure_names_the_command_line() {
        let error = run(&mut program("/bin/sh", &["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
        let error = run(&mut program("no-such-program", &["x"])).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `no-such-program x`");
    }

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        assert_eq!(executable_in(r#"{"reason":"compiler-artifact"}"#), None);
        assert_eq!(executable_in("not json"), None);
        let found = executable_in(r#"{"reason":"compiler-artifact","executable":"/t/x"}"#);
        assert_eq!(found, Some(PathBuf::from("/t/x")));
    }

    #[test]
    fn a_program_is_installed_if_it_is_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program"));
    }
}
