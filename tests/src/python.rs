//! Python with the `kubernetes` package that `cargo xtask tools` installs.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;
use xtask::cache;

/// Limit for a script. Importing the package alone takes seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs a script whose first argument is a file with this kubeconfig, and returns its stdout.
pub async fn run(script: &str, kubeconfig: &str) -> Result<String> {
    let mut file = NamedTempFile::new()?;
    file.write_all(kubeconfig.as_bytes())?;
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", script])
        .arg(file.path())
        .env("PYTHONPATH", cache::find(cache::PYTHON)?)
        // The server is on loopback, so a proxy from the environment does not apply.
        .env("NO_PROXY", "*")
        .kill_on_drop(true);
    let output = timeout(TIMEOUT, python.output()).await;
    let output = output.context("the script timed out")??;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{stderr}");
    Ok(String::from_utf8(output.stdout)?)
}
