//! A simulated process of a watchdog.

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::ProcessLink;

/// A replica of a watchdog that runs as a task and reaches the landscape over its own link.
#[derive(Debug)]
pub struct SimProcess<T> {
    /// The process' interface for its owner, such as its metrics or HTTP routes.
    pub exposed: T,
    /// The process' network, which can be paused.
    pub link: ProcessLink,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl<T> SimProcess<T> {
    /// Spawns `run`, which communicates over `link` and stops when `shutdown` is cancelled.
    pub fn start(
        link: ProcessLink,
        shutdown: CancellationToken,
        exposed: T,
        run: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            exposed,
            link,
            shutdown,
            task: tokio::spawn(run),
        }
    }

    /// Kills the process. Requests that it has not sent are lost.
    pub fn crash(self) {
        self.link.cut();
        self.shutdown.cancel();
    }

    /// Stops the process gracefully. Fails if its task had panicked.
    pub async fn stop(self) -> Result<(), JoinError> {
        self.shutdown.cancel();
        self.task.await
    }
}
