//! Programs that are installed when they are missing: Debian packages and cargo subcommands.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo, is_installed, program};

/// A program the tests start, and the package that has it.
const NEEDED: [(&str, &str); 2] = [
    // Counts instructions for the budget of a decision.
    ("valgrind", "valgrind"),
    // Fetches Python's client, which must be able to work on the simulator.
    ("pip3", "python3-pip"),
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

/// Takes one file out of a Debian package without installing it: a package with a server would
/// start the server as a service. `folder` is where the package is unpacked; it goes afterwards.
pub(crate) fn extract(package: &str, file: &str, folder: &Path, to: &Path) -> Result<()> {
    for needed in ["apt-get", "dpkg-deb"] {
        if !is_installed(needed) {
            bail!(
                "{needed} is missing: it fetches Debian's {package}. Without Debian, put {file} of \
                 that package at {}",
                to.display()
            );
        }
    }
    // What a killed run has left behind.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    if download(package, folder).is_err() {
        // The lists of a fresh image are empty, those of an old one name files that are gone.
        command::read(&mut apt_get(&["update"]))?;
        download(package, folder)?;
    }
    let archive = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.with_context(|| format!("apt-get downloaded no {package}"))?;
    let unpacked = folder.join("unpacked");
    let mut unpack = program("dpkg-deb", &["--extract"]);
    command::run(unpack.arg(&archive).arg(&unpacked))?;
    fs::rename(unpacked.join(file), to).with_context(|| format!("{package} has no {file}"))?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn download(package: &str, folder: &Path) -> Result<()> {
    let mut download = apt_get(&["download", package]);
    // Read, not run: stdout belongs to the folder that `cargo xtask tools --print` prints.
    command::read(download.current_dir(folder)).map(|_| ())
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
