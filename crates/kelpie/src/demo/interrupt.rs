//! Ctrl-C, for who does not wait in a runtime.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::signals;

/// Tells when somebody wants it to end.
pub(super) struct Interrupt {
    told: Receiver<()>,
    token: CancellationToken,
    /// Listens on a thread of its own: the stage's runtime lives in another time.
    _listener: Runtime,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self> {
        let listener = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()
            .context("cannot start the runtime")?;
        let (tell, told) = mpsc::channel();
        let token = listener.block_on(async {
            let shutdown = signals::shutdown()?;
            let token = shutdown.clone();
            tokio::spawn(async move {
                shutdown.cancelled().await;
                // Nobody is left to be told at the end.
                let _ = tell.send(());
            });
            anyhow::Ok(token)
        })?;
        Ok(Self {
            told,
            token,
            _listener: listener,
        })
    }

    /// Waits for it, so long at most.
    pub(super) fn is_told_within(&self, time: Duration) -> bool {
        self.told.recv_timeout(time).is_ok()
    }

    pub(super) fn is_told(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Cancelled when it is told, for who does wait in a runtime.
    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}
