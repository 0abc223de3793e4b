//! Fetches the Python client for Kubernetes, which the tests run against the simulator.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use xtask::cache;

use crate::command::{self, program};

/// Downloads the Python client and its dependencies to a folder, without installing them.
pub(crate) fn fetch(folder: &Path) -> Result<()> {
    if command::read(&mut program("python3", &["-m", "pip", "--version"])).is_err() {
        bail!(
            "python3 or its pip is missing: install both (on Debian, `apt-get install \
             python3-pip`), or use `cargo xtask test --fast`"
        );
    }
    let partial = folder.join(".python.partial");
    // A killed run may have left it behind.
    let _ = fs::remove_dir_all(&partial);
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let mut pip = program("python3", &pip);
    pip.args([
        "--root-user-action=ignore",
        "--no-deps",
        "--no-compile",
        "--target",
    ]);
    pip.arg(&partial);
    pip.arg("--requirement").arg(requirements());
    command::run(&mut pip)?;
    fs::rename(&partial, folder.join(cache::PYTHON))?;
    Ok(())
}

fn requirements() -> PathBuf {
    cache::repository().join("tools/python/requirements.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_client_matches_requirements() {
        let required = fs::read_to_string(requirements()).unwrap();
        let line = cache::PYTHON.replace("python-kubernetes-", "kubernetes==");
        assert!(required.lines().any(|found| found == line), "{line}");
    }
}
