//! Installs missing Debian packages and cargo subcommands.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo, is_installed, program};

/// Programs that the tests need, with their Debian packages.
const NEEDED: [(&str, &str); 7] = [
    // Counts instructions for the instruction budgets.
    ("valgrind", "valgrind"),
    // Fetches the Python client, which the tests run against the simulator.
    ("pip3", "python3-pip"),
    // Reads JSON in the script that lifts fences.
    ("jq", "jq"),
    // Unpacks the image.
    ("umoci", "umoci"),
    // Runs the image's program in its root, as a pod would.
    ("bwrap", "bubblewrap"),
    // Shows the fleet page.
    ("chromium", "chromium"),
    // Fetches axe-core, which checks the page.
    ("npm", "npm"),
];

/// Returns the Debian packages whose programs are missing.
pub(crate) fn missing() -> Vec<&'static str> {
    missing_without(is_installed)
}

/// Installs what is missing.
pub(crate) fn provide() -> Result<()> {
    install(&missing())
}

/// Installs these packages.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    check_installable(packages)?;
    command::run(&mut apt_get(&["update"]))?;
    command::run(apt_get(&["install", "-y", "--no-install-recommends"]).args(packages))
}

/// Returns an error with the command that installs these packages if this process cannot do it.
pub(crate) fn check_installable(packages: &[&str]) -> Result<()> {
    if packages.is_empty() || is_installed("apt-get") && is_root()? {
        return Ok(());
    }
    let packages = packages.join(" ");
    bail!(
        "missing: {packages}; install them (on Debian, as root: `apt-get update && apt-get install \
         --no-install-recommends {packages}`)"
    )
}

/// Extracts one file from a Debian package without installing the package, which would start its
/// server as a service. The package is unpacked in `folder`, which is removed afterwards.
pub(crate) fn extract(package: &str, file: &str, folder: &Path, to: &Path) -> Result<()> {
    for needed in ["apt-get", "dpkg-deb"] {
        if !is_installed(needed) {
            bail!(
                "{needed} is missing, which fetches Debian's package {package}. On other systems, \
                 put {file} of that package at {}",
                to.display()
            );
        }
    }
    // A killed run may have left it behind.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    if download(package, folder).is_err() {
        // The package lists of a fresh image are empty, and those of an old image are outdated.
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
    // `read` captures stdout, which is reserved for the folder that `tools --print` prints.
    command::read(download.current_dir(folder)).map(|_| ())
}

/// Installs a missing cargo subcommand in a version that builds with the project's Rust.
pub(crate) fn install_subcommand(name: &str, version: &str) -> Result<()> {
    if is_installed(name) {
        return Ok(());
    }
    println!("{name} is missing: installing it takes a few minutes, once");
    command::run(&mut cargo(&[
        "install",
        "--locked",
        "--version",
        version,
        name,
    ]))
}

fn missing_without(is_installed: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let missing = NEEDED.iter().filter(|(program, _)| !is_installed(program));
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
    fn only_missing_packages_are_installed() {
        assert!(missing_without(|_| true).is_empty());
        assert_eq!(
            missing_without(|program| program != "valgrind"),
            ["valgrind"]
        );
    }
}
