//! Shows that two fresh clones in different folders give the same bytes.

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, ensure};
use xtask::cache;

use super::{CHECKSUMS, VERSION};
use crate::command::{self, cargo, program};
use crate::platform::Platform;

/// Makes a release of the last commit twice and compares the checksums of all files.
pub(super) fn run(platforms: &[Platform], profile: &str) -> Result<()> {
    let folder = env::temp_dir().join(format!("kelpie-reproduce-{}", process::id()));
    // The second path is longer, so that a path in a file changes its size.
    let one = release(&folder.join("one"), platforms, profile)?;
    let other = release(&folder.join("another-folder"), platforms, profile)?;
    ensure!(
        one == other,
        "two clones gave different bytes, see {}:\n{one}\n{other}",
        folder.display()
    );
    print!("{one}");
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())
}

/// Clones the last commit to a folder and makes a release there. Returns the checksums.
fn release(clone: &Path, platforms: &[Platform], profile: &str) -> Result<String> {
    let mut cloning = program("git", &["clone", "--quiet"]);
    command::run(cloning.arg(cache::repository()).arg(clone))?;
    let mut release = cargo(&["run", "--quiet", "--package", "xtask", "--", "release"]);
    release.args(["--dry-run", "--profile", profile]);
    for platform in platforms {
        release.args(["--platform", platform.name()]);
    }
    let target = clone.join("target");
    release.current_dir(clone).env("CARGO_TARGET_DIR", &target);
    command::run(&mut release)?;
    let checksums = target.join(format!("release-{VERSION}")).join(CHECKSUMS);
    let checksums = fs::read_to_string(&checksums);
    checksums.context("the release has no checksums")
}
