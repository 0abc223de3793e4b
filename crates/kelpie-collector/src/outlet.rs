//! Where a tick's batches go.

use crate::Sample;
use crate::hub::Hub;
use crate::queue::Queued;
use crate::tick::Tick;

/// Where a tick's batches go.
pub(crate) enum Outlet {
    /// To the hub.
    Hub(Box<Hub>),
    /// To whoever wants to see them; the hub is not asked.
    Shown(Box<dyn Fn(&Sample) + Send + Sync>),
}

impl Outlet {
    pub(crate) async fn deliver(&self, queued: Queued, tick: &Tick) {
        match self {
            Self::Hub(hub) => hub.deliver(queued, tick).await,
            Self::Shown(show) => {
                for sample in queued.batch.samples() {
                    show(&sample);
                }
                tick.seen.acknowledge(&queued.batch);
                tick.ledger.lock().accepted += queued.batch.len() as u64;
            }
        }
    }
}
