//! `cargo xtask audit`: what we depend on, checked by the rules of `deny.toml`.

use anyhow::{Result, bail};

use crate::command::{self, cargo};
use crate::packages::install_subcommand;

pub(crate) fn run() -> Result<()> {
    install_subcommand("cargo-deny", "0.20.2")?;
    command::run(&mut deny(&["bans", "licenses", "sources"]))?;

    // Advisories live in a repository of their own, which is not reachable from everywhere.
    let advisories = command::output(&mut deny(&["advisories"]))?;
    let said = String::from_utf8_lossy(&advisories.stderr);
    if advisories.status.success() {
        println!("advisories ok");
    } else if said.contains("failed to fetch advisory database") {
        println!("advisories NOT checked: the advisory database cannot be fetched from here");
    } else {
        bail!("advisories:\n{said}");
    }
    Ok(())
}

fn deny(checks: &[&str]) -> std::process::Command {
    let mut deny = cargo(&["deny", "--workspace", "check"]);
    deny.args(checks);
    deny
}
