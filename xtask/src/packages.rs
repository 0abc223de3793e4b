//! Programs that are installed when they are missing: Debian packages and cargo subcommands.

use anyhow::{Result, bail};

use crate::command::{self, cargo, is_installed, program};

/// A program the tests start, and the package that has it.
const NEEDED: [(&str, &str); 1] = [
    // Counts instructions for the budget of a decision.
    ("valgrind", "valgrind"),
];

/// Installs what is missing and says what it did.
pub(crate) fn provide() -> Result<String> {
    let missing = missing(is_installed);
    if missing.is_empty() {
        let programs: Vec<&str> = NEEDED.iter().map(|(program, _)| *program).collect();
        return Ok(format!("there: {}", programs.join(", ")));
    }
    let packages = missing.join(" ");
    let by_hand = format!("apt-get update && apt-get install --no-install-recommends {packages}");
    if !is_installed("apt-get") || !is_root()? {
        bail!("missing: {packages}. Install it, on Debian as root: `{by_hand}`");
    }
    command::run(&mut apt_get(&["update"]))?;
    command::run(apt_get(&["install", "-y", "--no-install-recommends"]).args(&missing))?;
    Ok(format!("installed: {packages}"))
}

/// Installs a cargo subcommand that is not there yet, in the version known to build with our Rust.
pub(crate) fn install_subcommand(name: &str, version: &str) -> Result<()> {
    if is_installed(name) {
        return Ok(());
    }
    println!("{name} is missing: installing it takes some minutes, once");
    command::run(&mut cargo(&[
        "install",
        "--locked",
        "--version",
        version,
        name,
    ]))
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let missing = NEEDED.iter().filter(|(program, _)| !is_there(program));
    missing.map(|(_, package)| *package).collect()
}

fn is_root() -> Result<bool> {
    Ok(command::read(&mut program("id", &["-u"]))?.trim() == "0")
}

fn apt_get(args: &[&str]) -> std::process::Command {
    let mut apt_get = program("apt-get", &["-q"]);
    apt_get.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_gets_installed() {
        assert!(missing(|_| true).is_empty());
        assert_eq!(missing(|program| program != "valgrind"), ["valgrind"]);
    }
}
