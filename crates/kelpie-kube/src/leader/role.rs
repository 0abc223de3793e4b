//! The role of a replica: whether it may act, and on what that depends.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kelpie_runtime::watch::{Receiver, Sender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Election, ElectionSettings, Leadership, elect};
use crate::client::ClusterClient;

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
        let stop = CancellationToken::new();
        let over = stop.clone();
        let (leadership, election) = match self {
            Self::Observer => hold(Leadership::Standby, over),
            Self::Alone => hold(Leadership::alone(), over),
            Self::Candidate(settings) => {
                let (leadership, run) = elect(seed, settings, over);
                (leadership, run.boxed())
            }
        };
        Election {
            leadership,
            observes,
            task: election,
            stop,
        }
    }
}

/// Returns a leadership that never changes.
fn hold(
    leadership: Leadership,
    over: CancellationToken,
) -> (Receiver<Leadership>, BoxFuture<'static, ()>) {
    let leadership = Sender::new(leadership).subscribe();
    (leadership, over.cancelled_owned().boxed())
}

/// Reports every change of whether this replica acts.
pub(super) async fn announce(mut leadership: Receiver<Leadership>, tell: impl Fn(bool)) {
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
