//! A stage that stays up when the story is over, for who wants to look around.

use std::fmt::Write;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use axum::Router;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::stage::Stage;
use crate::{config_file, terminal};

/// Lets others in and says how, until somebody has seen enough.
pub(super) fn keep(stage: &Stage, enough: &CancellationToken) -> Result<()> {
    stage.live(async {
        let doors = stage.landscape().open().await?;
        // Only we may look into it, and it goes with us.
        let folder = TempDir::with_prefix("kelpie-demo-");
        let folder = folder.context("cannot make a folder for the kubeconfig")?;
        for (name, content) in [
            ("kubeconfig", &*doors.kubeconfig),
            ("prober.yaml", config_file::GARDENERS_PROBER),
            ("weeder.yaml", config_file::GARDENERS_WEEDER),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let (prober, weeder) = stage.pages();
        let prober = match prober {
            Some(pages) => Some(serve(pages, enough).await?),
            None => None,
        };
        let weeder = match weeder {
            Some(pages) => Some(serve(pages, enough).await?),
            None => None,
        };
        let some_cluster = stage.fleet().into_iter().next();
        let some_cluster = some_cluster.map(|row| row.cluster).unwrap_or_default();
        let mut text = format!(
            "\nAll of it stays up, in real time, until Ctrl-C. In another terminal:\n\n  \
             cd {}\n  \
             export KUBECONFIG=$PWD/kubeconfig\n  \
             kubectl get clusters\n  \
             kubectl get deployments --all-namespaces\n  \
             kubectl --context {some_cluster} get nodes\n  \
             kelpie check prober --config-file prober.yaml\n  \
             kelpie check weeder --config-file weeder.yaml\n",
            folder.path().display()
        );
        if let Some(prober) = &prober {
            let _ = writeln!(text, "  kelpie explain {some_cluster} --from {prober}");
        }
        text.push('\n');
        for (who, url) in [("prober", prober), ("weeder", weeder)] {
            if let Some(url) = url {
                let _ = writeln!(text, "{who}: {url}/metrics, {url}/debug/state");
            }
        }
        terminal::stdout_while_read(&text).context("cannot write the addresses")?;
        enough.cancelled().await;
        Ok(())
    })
}

/// Serves pages in the background on a port of loopback that is free; gives their URL.
async fn serve(pages: Router, over: &CancellationToken) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.context("cannot listen on loopback")?;
    let url = format!("http://{}", listener.local_addr()?);
    let over = over.clone().cancelled_owned();
    tokio::spawn(kelpie_health::serve(listener, pages, over));
    Ok(url)
}
