//! Python with its `kubernetes` package, as `cargo xtask tools` provides it.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;
use xtask::cache;

/// Importing the package alone takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs a script whose first argument is a file with this kubeconfig; gives what it printed.
pub async fn run(script: &str, kubeconfig: &str) -> Result<String> {
    let mut file = NamedTempFile::new()?;
    file.write_all(kubeconfig.as_bytes())?;
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", script])
        .arg(file.path())
        .env("PYTHONPATH", cache::find(cache::PYTHON)?)
        // The server is on loopback, whatever proxy the environment names.
        .env("NO_PROXY", "*")
        .kill_on_drop(true);
    let done = timeout(PATIENCE, python.output()).await;
    let done = done.context("no end in time")??;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    Ok(String::from_utf8(done.stdout)?)
}
