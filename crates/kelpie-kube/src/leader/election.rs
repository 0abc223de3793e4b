//! A replica's part in an election, and the background tasks that end with it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use kelpie_runtime::watch::Receiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::Leadership;
use super::role::announce;

/// The time limit for releasing the Lease, and for background tasks to end after that.
const HANDOVER: Duration = Duration::from_secs(1);

/// An election that has not started yet. See
/// [`ReplicaRole::election`](super::ReplicaRole::election).
pub struct Election {
    pub(super) leadership: Receiver<Leadership>,
    /// This replica can never act.
    pub(super) observes: bool,
    /// Ends when `stop` is cancelled and the Lease is released.
    pub(super) task: BoxFuture<'static, ()>,
    pub(super) stop: CancellationToken,
}

/// A running election, and background tasks that outlive it by a moment.
pub struct ElectionHandle {
    tasks: TaskTracker,
    over: CancellationToken,
    election: JoinHandle<()>,
    election_over: CancellationToken,
}

impl Election {
    /// Returns whether this replica may act, as a channel.
    pub fn leadership(&self) -> Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Starts the election. `on_change` is called whenever this replica begins or stops to act.
    pub fn spawn(self, on_change: impl Fn(bool) + Send + 'static) -> ElectionHandle {
        let (tasks, over) = (TaskTracker::new(), CancellationToken::new());
        let election = tasks.spawn(self.task);
        if self.observes {
            info!("dry run: this replica decides and writes nothing");
        } else {
            let announce = announce(self.leadership, on_change);
            tasks.spawn(over.clone().run_until_cancelled_owned(announce));
        }
        ElectionHandle {
            tasks,
            over,
            election,
            election_over: self.stop,
        }
    }
}

impl ElectionHandle {
    /// Starts a background task. Its token is cancelled after the Lease is released. A task that
    /// does not end soon after that is abandoned.
    pub fn spawn<T: Future<Output: Send> + Send + 'static>(
        &self,
        task: impl FnOnce(CancellationToken) -> T,
    ) {
        self.tasks.spawn(task(self.over.clone()));
    }

    /// Releases the Lease and ends the background tasks. The caller must have stopped acting
    /// before: another replica may begin at once.
    pub async fn step_down(self) {
        self.election_over.cancel();
        if timeout(HANDOVER, self.election).await.is_err() {
            warn!("could not release the Lease in time; it will expire");
        }
        self.over.cancel();
        self.tasks.close();
        let _ = timeout(HANDOVER, self.tasks.wait()).await;
    }
}
