//! Clients for a kubeconfig: kube-rs, and the real kubectl and helm.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::process::Command;
use xtask::cache;

/// Returns a client that never retries, so that a test sees every response.
pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.default_retry = false;
    // The server is on loopback, so a proxy from the environment does not apply.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

/// Runs kubectl with its files in `folder`, and returns its stdout.
pub async fn run(kubeconfig: &str, folder: &Path, arguments: &[&str]) -> Result<String> {
    run_tool("kubectl", kubeconfig, folder, arguments).await
}

/// Runs a tool that accepts kubectl's `--kubeconfig` flag, and returns its stdout.
pub(crate) async fn run_tool(
    tool: &str,
    kubeconfig: &str,
    folder: &Path,
    arguments: &[&str],
) -> Result<String> {
    let mut command = command(tool, kubeconfig, folder, arguments)?;
    let output = command.output().await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{tool} {}: {stderr}",
        arguments.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Prepares a command for such a tool, without starting it.
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
    // The discovery cache below HOME must not be shared between servers.
    command.env("HOME", folder).kill_on_drop(true);
    Ok(command)
}
