//! The role of a replica, its part in an election, and the background tasks that end with it.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kelpie_runtime::watch::{Receiver, Sender};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{CallLatency, ElectionChannels, ElectionSettings, Leadership, elect};
use crate::client::ClusterClient;

/// The time limit for releasing the Lease, and for background tasks to end after that.
const HANDOVER: Duration = Duration::from_secs(1);

/// The role of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// It never acts, as in a dry run.
    Observer,
    /// It always acts: there is no other replica.
    Alone,
    /// It acts while it is the elected leader.
    Candidate(ElectionSettings),
}

impl ReplicaRole {
    /// Returns the role for these options. A dry run takes no part in an election: it must neither
    /// write the Lease nor keep other replicas from acting.
    pub fn new(election: Option<ElectionSettings>, dry_run: bool) -> Self {
        match election {
            _ if dry_run => Self::Observer,
            Some(settings) => Self::Candidate(settings),
            None => Self::Alone,
        }
    }

    /// Prepares the election on this API server. Nothing runs yet.
    pub fn election(self, seed: &ClusterClient) -> Election {
        let observes = self == Self::Observer;
        let (stop, standing) = (CancellationToken::new(), Sender::new(true));
        let over = stop.clone();
        let channels = ElectionChannels {
            leadership: Sender::new(match self {
                Self::Alone => Leadership::alone(),
                Self::Observer | Self::Candidate(_) => Leadership::Standby,
            }),
            latency: Sender::new(None),
            standing: standing.subscribe(),
            lease: watch::Sender::default(),
        };
        let lease = channels.lease.subscribe();
        let leadership = channels.leadership.subscribe();
        let latency = channels.latency.subscribe();
        let task = match self {
            // The leadership never changes.
            Self::Observer | Self::Alone => over.cancelled_owned().boxed(),
            Self::Candidate(settings) => elect(seed, settings, channels, over).boxed(),
        };
        Election {
            leadership,
            latency,
            lease,
            standing,
            observes,
            task,
            stop,
        }
    }
}

/// An election that has not started yet. See [`ReplicaRole::election`].
pub struct Election {
    leadership: Receiver<Leadership>,
    latency: Receiver<Option<CallLatency>>,
    lease: watch::Receiver<Lease>,
    standing: Sender<bool>,
    /// This replica can never act.
    observes: bool,
    /// Ends when `stop` is cancelled and the Lease is released.
    task: BoxFuture<'static, ()>,
    stop: CancellationToken,
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

    /// Returns the latency of the last call of the election, as a channel. Without an election it
    /// stays `None`.
    pub fn latency(&self) -> Receiver<Option<CallLatency>> {
        self.latency.clone()
    }

    /// Returns the Lease as the election last saw it, as a channel.
    pub(crate) fn lease(&self) -> watch::Receiver<Lease> {
        self.lease.clone()
    }

    /// Returns the channel that holds this replica back from the election. While its value is
    /// false, the replica takes only a Lease that has been free for 5 s. It is true from the start.
    pub fn standing(&self) -> Sender<bool> {
        self.standing.clone()
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

    /// Releases the Lease as soon as the token is cancelled, before the work is done: another
    /// replica may begin at once. Nothing is begun from then on, as this replica is not the leader
    /// any more. A call that is under way may still succeed.
    pub fn release_on(&self, shutdown: CancellationToken) {
        let (stop, over) = (self.election_over.clone(), self.over.clone());
        self.tasks.spawn(async move {
            if over
                .run_until_cancelled(shutdown.cancelled())
                .await
                .is_some()
            {
                stop.cancel();
            }
        });
    }

    /// Releases the Lease, if it is not released yet, and ends the background tasks. The caller
    /// must have stopped acting before: another replica may begin at once.
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

/// Reports every change of whether this replica acts.
async fn announce(mut leadership: Receiver<Leadership>, tell: impl Fn(bool)) {
    let mut led = None;
    loop {
        let leads = leadership.borrow_and_update().may_act(Instant::now());
        tell(leads);
        match (led.replace(leads), leads) {
            (Some(true), true) | (Some(false), false) => {}
            (_, true) => info!("became leader"),
            (_, false) => info!("standby: not the leader"),
        }
        leadership.changed().await;
    }
}
