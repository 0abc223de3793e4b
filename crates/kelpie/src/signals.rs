//! Signals that stop the program.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Returns a token that the first SIGTERM or SIGINT cancels. Must be called within a Tokio runtime.
pub(crate) fn shutdown_token() -> Result<CancellationToken> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!("received {name}, shutting down");
        cancel.cancel();
    });
    Ok(token)
}
