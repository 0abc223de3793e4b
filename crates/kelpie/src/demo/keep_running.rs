//! `--keep`: serves the simulated clusters after the demo.

use std::fmt::Write;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use axum::Router;
use kelpie_sim::Platform;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::simulation::Simulation;
use super::terminal;
use super::watchdog::{self, Protection, Watchdog};
use crate::config_file;

/// Opens the simulated clusters to other clients, prints their addresses and waits for `shutdown`.
pub(super) fn keep_running(simulation: &Simulation, shutdown: &CancellationToken) -> Result<()> {
    simulation.run_in_real_time(async {
        let listeners = simulation.landscape.listen().await?;
        // Only the user can read this folder, and it is removed at the end.
        let folder = TempDir::with_prefix("kelpie-demo-");
        let folder = folder.context("cannot create a folder for the kubeconfig")?;
        let protection = simulation.watchdog.as_ref().map(|it| it.protection);
        let platform = simulation.landscape.platform();
        let prober = match (protection, platform) {
            (None | Some(Protection::Fence), Platform::Gardener) => config_file::GARDENER_PROBER,
            (protection, platform) => {
                let protection = protection.unwrap_or(Protection::Fence);
                // JSON is YAML, too.
                &serde_json::to_string_pretty(&watchdog::prober_config(protection, platform)?)?
            }
        };
        for (name, content) in [
            ("kubeconfig", &*listeners.kubeconfig),
            ("prober.yaml", prober),
            ("weeder.yaml", watchdog::GARDENER_WEEDER),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let mut urls = Vec::new();
        for (name, routes) in simulation.watchdog.iter().flat_map(Watchdog::routes) {
            urls.push((name, serve(routes, shutdown).await?));
        }
        let first = simulation.clusters().into_iter().next();
        let first = first.map(|snapshot| snapshot.cluster).unwrap_or_default();
        let (targets, id) = match platform.shared_namespace() {
            None => ("deployments", first.clone()),
            Some(namespace) => ("machinehealthchecks", format!("{namespace}/{first}")),
        };
        let mut text = format!(
            "\nThe simulated clusters keep running in real time until Ctrl-C. \
             In another terminal:\n\n  \
             cd {}\n  \
             export KUBECONFIG=$PWD/kubeconfig\n  \
             kubectl get clusters --all-namespaces\n  \
             kubectl get {targets} --all-namespaces\n  \
             kubectl --context {first} get nodes\n  \
             kelpie check prober --config-file prober.yaml\n  \
             kelpie check weeder --config-file weeder.yaml\n",
            folder.path().display()
        );
        if let Some((_, prober)) = urls.iter().find(|(name, _)| name.starts_with("prober")) {
            let _ = writeln!(text, "  kelpie explain {id} --from {prober}");
            let _ = writeln!(text, "\nIn a browser, the fleet page: {prober}/ui/");
        }
        text.push('\n');
        for (name, url) in urls {
            let _ = writeln!(text, "{name}: {url}/metrics, {url}/debug/state");
        }
        terminal::write(&text).context("cannot write the addresses")?;
        shutdown.cancelled().await;
        Ok(())
    })
}

/// Serves the routes in the background on a free port of loopback. Returns their URL.
async fn serve(routes: Router, shutdown: &CancellationToken) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.context("cannot listen on loopback")?;
    let url = format!("http://{}", listener.local_addr()?);
    let shutdown = shutdown.clone().cancelled_owned();
    tokio::spawn(kelpie_health::serve(listener, routes, shutdown));
    Ok(url)
}
