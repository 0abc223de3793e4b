//! `cargo xtask audit`: checks dependencies against the rules of `deny.toml`.

use anyhow::{Result, bail};

use crate::command::{self, cargo};
use crate::packages::install_subcommand;

pub(crate) fn run() -> Result<()> {
    install_subcommand("cargo-deny", "0.20.2")?;
    command::run(&mut deny(&["bans", "licenses", "sources"]))?;

    // The advisory database is a separate repository, which is not reachable from everywhere.
    let advisories = command::output(&mut deny(&["advisories"]))?;
    let stderr = String::from_utf8_lossy(&advisories.stderr);
    if advisories.status.success() {
        println!("advisories ok");
    } else if stderr.contains("failed to fetch advisory database") {
        println!("advisories NOT checked: cannot fetch the advisory database");
    } else {
        bail!("advisories:\n{stderr}");
    }
    Ok(())
}

fn deny(checks: &[&str]) -> std::process::Command {
    let mut deny = cargo(&["deny", "--workspace", "check"]);
    deny.args(checks);
    deny
}
