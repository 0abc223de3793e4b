//! The part that a replica plays.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kelpie_bell::{Bell, Listener};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Candidacy, ElectionSettings, Leadership, elect};
use crate::seed::Seed;

/// Who decides whether this replica acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It never does.
    Observer,
    /// There is nobody else.
    Alone,
    /// An election.
    Candidate(ElectionSettings),
}

impl Part {
    /// Who does not act must not keep others from it, nor write the Lease.
    pub fn new(election: Option<ElectionSettings>, dry_run: bool) -> Self {
        match election {
            _ if dry_run => Self::Observer,
            Some(settings) => Self::Candidate(settings),
            None => Self::Alone,
        }
    }

    /// Makes ready to play it on this seed; nothing runs yet.
    pub fn play(self, seed: &Seed) -> Candidacy {
        let observes = self == Self::Observer;
        let election_over = CancellationToken::new();
        let over = election_over.clone();
        let (leadership, election) = match self {
            Self::Observer => hold(Leadership::Standby, over),
            Self::Alone => hold(Leadership::alone(), over),
            Self::Candidate(settings) => {
                let (leadership, run) = elect(seed, settings, over);
                (leadership, run.boxed())
            }
        };
        Candidacy {
            leadership,
            observes,
            election,
            election_over,
        }
    }
}

/// The same until the end.
fn hold(
    leadership: Leadership,
    over: CancellationToken,
) -> (Listener<Leadership>, BoxFuture<'static, ()>) {
    let leadership = Bell::new(leadership).listen();
    (leadership, over.cancelled_owned().boxed())
}

/// Tells when this replica begins or stops to act.
pub(super) async fn announce(mut leadership: Listener<Leadership>, tell: impl Fn(bool)) {
    let mut led = None;
    loop {
        let leads = leadership.value().may_act(Instant::now());
        tell(leads);
        match (led.replace(leads), leads) {
            (Some(true), true) | (Some(false), false) => {}
            (_, true) => info!("this replica acts"),
            (_, false) => info!("this replica observes; another one acts, or none yet"),
        }
        leadership.heard().await;
    }
}
