//! Fetches axe-core, which finds what makes a page hard to use for people with disabilities.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use xtask::cache;

use crate::command::{self, is_installed, program};

/// Downloads the package and unpacks it into the folder. Nothing of it is run.
pub(crate) fn fetch(folder: &Path) -> Result<()> {
    if !is_installed("npm") {
        bail!(
            "npm is missing: install it (on Debian, `apt-get install npm`), or use `cargo xtask \
             test --fast`"
        );
    }
    let partial = folder.join(".axe-core.partial");
    // A killed run may have left it behind.
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    let package = cache::AXE.replace("axe-core-", "axe-core@");
    // `read` captures stdout, which is reserved for the folder that `tools --print` prints.
    let mut pack = program("npm", &["pack", "--silent", &package]);
    command::read(pack.current_dir(&partial))?;
    let mut unpack = program("tar", &["-xzf"]);
    unpack.arg(format!("{}.tgz", cache::AXE));
    command::run(unpack.current_dir(&partial))?;
    fs::rename(partial.join("package"), folder.join(cache::AXE))?;
    fs::remove_dir_all(&partial)?;
    Ok(())
}
