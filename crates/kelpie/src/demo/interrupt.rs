//! Ctrl-C, for code that does not wait in a runtime.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::signals;

/// Listens for the signals that end the demo.
pub(super) struct Interrupt {
    interrupted: Receiver<()>,
    token: CancellationToken,
    /// Listens on its own thread, because the simulation's runtime has virtual time.
    _listener: Runtime,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self> {
        let listener = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()
            .context("cannot start the runtime")?;
        let (sender, interrupted) = mpsc::channel();
        let token = listener.block_on(async {
            let shutdown = signals::shutdown_token()?;
            let token = shutdown.clone();
            tokio::spawn(async move {
                shutdown.cancelled().await;
                // Fails only if the demo has ended and dropped the receiver.
                let _ = sender.send(());
            });
            anyhow::Ok(token)
        })?;
        Ok(Self {
            interrupted,
            token,
            _listener: listener,
        })
    }

    /// Waits for a signal, at most for `timeout`. Returns true if one arrived.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        self.interrupted.recv_timeout(timeout).is_ok()
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns a token that a signal cancels, for code that waits in a runtime.
    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}
