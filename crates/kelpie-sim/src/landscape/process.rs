//! A process in a landscape.

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::Link;

/// As good as a process: a replica of a watchdog that reaches the landscape over a link of its own.
#[derive(Debug)]
pub struct Process<T> {
    /// What it shows of itself to whoever keeps it: its numbers, its pages.
    pub shows: T,
    link: Link,
    over: CancellationToken,
    running: JoinHandle<()>,
}

impl<T> Process<T> {
    /// Starts `work` in this runtime: it speaks over `link` and ends when `over` is cancelled.
    pub fn start(
        link: Link,
        over: CancellationToken,
        shows: T,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            shows,
            link,
            over,
            running: tokio::spawn(work),
        }
    }

    /// Who it is: the user that the seed sees.
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// It hears and says nothing.
    pub fn pause(&self) {
        self.link.hold();
    }

    /// The same, but not before its next write to the seed that others act on: that one arrives when it goes
    /// on, as if the process had been stopped after it was sure that it leads.
    pub fn pause_in_a_write(&self) {
        self.link.snare();
    }

    /// It hears and speaks again.
    pub fn resume(&self) {
        self.link.release();
    }

    /// It dies at once: whatever it was about to say is never heard.
    pub fn crash(self) {
        self.link.cut();
        self.over.cancel();
    }

    /// It ends as it should; an error if it was ended by a defect.
    pub async fn end(self) -> Result<(), JoinError> {
        self.over.cancel();
        self.running.await
    }
}
