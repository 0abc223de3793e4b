//! A simulated process of a watchdog.

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::ProcessLink;

/// A replica of a watchdog that runs as a task and reaches the landscape over its own link.
#[derive(Debug)]
pub struct SimProcess<T> {
    /// The process' interface for its owner, such as its metrics or HTTP routes.
    pub exposed: T,
    link: ProcessLink,
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

    /// Returns the process' name, which is the user that the seed sees.
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// Pauses the process' network.
    pub fn pause(&self) {
        self.link.pause();
    }

    /// Pauses the process at its next write to a resource that controllers act on. The write
    /// arrives when the process resumes, as if it had been stopped after its last leadership check.
    pub fn pause_on_next_write(&self) {
        self.link.pause_on_next_write();
    }

    /// Resumes the process' network.
    pub fn resume(&self) {
        self.link.resume();
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
