//! A replica's time in office: the election and whatever else goes on beside its work, and the end
//! of it all, in an order that the next one can rely on.

use std::time::Duration;

use futures_util::future::BoxFuture;
use kelpie_bell::Listener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::Leadership;
use super::part::announce;

/// The Lease gets this long to be given back, and everything else to end after that.
const HANDOVER: Duration = Duration::from_secs(1);

/// A part that is about to be played: see [`Part::play`](super::Part::play).
pub struct Candidacy {
    pub(super) leadership: Listener<Leadership>,
    /// It can never act.
    pub(super) observes: bool,
    /// Ends when `election_over` is cancelled and the Lease is given back.
    pub(super) election: BoxFuture<'static, ()>,
    pub(super) election_over: CancellationToken,
}

/// A part that is being played.
pub struct Office {
    tasks: TaskTracker,
    over: CancellationToken,
    election: JoinHandle<()>,
    election_over: CancellationToken,
}

impl Candidacy {
    /// Whether this replica may act.
    pub fn leadership(&self) -> Listener<Leadership> {
        self.leadership.clone()
    }

    /// Takes part from now on; `tell` is told whenever this replica begins or stops to act.
    pub fn begin(self, tell: impl Fn(bool) + Send + 'static) -> Office {
        let (tasks, over) = (TaskTracker::new(), CancellationToken::new());
        let election = tasks.spawn(self.election);
        if self.observes {
            info!("dry run: this replica decides and writes nothing");
        } else {
            let announce = announce(self.leadership, tell);
            tasks.spawn(over.clone().run_until_cancelled_owned(announce));
        }
        Office {
            tasks,
            over,
            election,
            election_over: self.election_over,
        }
    }
}

impl Office {
    /// Something goes on beside the work. The token is cancelled after the Lease is given back; what
    /// has not ended soon after that is left alone.
    pub fn beside<T: Future<Output: Send> + Send + 'static>(
        &self,
        task: impl FnOnce(CancellationToken) -> T,
    ) {
        self.tasks.spawn(task(self.over.clone()));
    }

    /// Gives the Lease back and ends what went on beside. Who calls it must have stopped acting:
    /// another one may begin at once.
    pub async fn leave(self) {
        self.election_over.cancel();
        if timeout(HANDOVER, self.election).await.is_err() {
            warn!("the Lease could not be given back in time; it runs out by itself");
        }
        self.over.cancel();
        self.tasks.close();
        let _ = timeout(HANDOVER, self.tasks.wait()).await;
    }
}
