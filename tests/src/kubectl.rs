//! Clients for a kubeconfig: ours, and the real kubectl and helm.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::process::Command;
use xtask::cache;

/// A client that retries nothing: a test sees what the server answered.
pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.default_retry = false;
    // The server is on loopback, whatever proxy the environment names.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

/// Runs kubectl with its files in `folder` and gives what it printed.
pub async fn run(kubeconfig: &str, folder: &Path, arguments: &[&str]) -> Result<String> {
    run_tool("kubectl", kubeconfig, folder, arguments).await
}

/// The same with one of the tools that take kubectl's `--kubeconfig`.
pub(crate) async fn run_tool(
    tool: &str,
    kubeconfig: &str,
    folder: &Path,
    arguments: &[&str],
) -> Result<String> {
    let mut command = command(tool, kubeconfig, folder, arguments)?;
    let done = command.output().await?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.success(),
        "{tool} {}: {said}",
        arguments.join(" ")
    );
    Ok(String::from_utf8(done.stdout)?)
}

/// A tool, ready to be started.
pub(crate) fn command(
    tool: &str,
    kubeconfig: &str,
    folder: &Path,
    arguments: &[&str],
) -> Result<Command> {
    let file = folder.join("admin.kubeconfig");
    fs::write(&file, kubeconfig)?;
    let mut command = Command::new(cache::find(tool)?);
    command.arg("--kubeconfig").arg(&file).args(arguments);
    // Its discovery cache belongs to this server alone.
    command.env("HOME", folder).kill_on_drop(true);
    Ok(command)
}
