//! The prober's own egress, as the external probes of all clusters show it.

use std::sync::Arc;

use kelpie_core::Time;
use kelpie_core::prober::{EgressState, EgressTracker, ProbeResult};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tracing::{info, warn};

/// The external probes of all clusters. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OwnEgress {
    tracker: Arc<Mutex<EgressTracker>>,
    suspected: Gauge,
}

/// The entry of one cluster. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct EgressEntry {
    own_egress: OwnEgress,
    cluster: Arc<str>,
}

impl OwnEgress {
    /// Creates an empty tracker. `suspected` shows the suspicion.
    pub(crate) fn new(suspected: Gauge) -> Self {
        Self {
            tracker: Arc::default(),
            suspected,
        }
    }

    pub(crate) fn entry(&self, cluster: &Arc<str>) -> EgressEntry {
        EgressEntry {
            own_egress: self.clone(),
            cluster: Arc::clone(cluster),
        }
    }

    /// Changes the tracker, and reports a suspicion that begins or ends with it.
    fn update(&self, change: impl FnOnce(&mut EgressTracker)) {
        let mut tracker = self.tracker.lock();
        let was_suspected = tracker.is_suspected();
        change(&mut tracker);
        let is_suspected = tracker.is_suspected();
        if is_suspected == was_suspected {
            return;
        }
        self.suspected.set(is_suspected.into());
        if is_suspected {
            warn!(
                "most external probes failed within 30 s while leases are renewed: the prober's \
                 own egress is suspected; external probes decide nothing until it works again"
            );
        } else {
            info!("the prober's own egress is no longer suspected; external probes decide again");
        }
    }
}

impl EgressEntry {
    /// Takes in a result that arrived at `at`, and whether the leases of the cluster are renewed.
    pub(crate) fn record(&self, result: ProbeResult, at: Time, leases_renewed: bool) {
        self.own_egress
            .update(|tracker| tracker.record(&self.cluster, result, at, leases_renewed));
    }

    /// Returns the state of the egress, for a decision about this cluster.
    pub(crate) fn state(&self, now: Time) -> EgressState {
        self.own_egress.tracker.lock().state(&self.cluster, now)
    }
}

impl Drop for EgressEntry {
    fn drop(&mut self) {
        self.own_egress
            .update(|tracker| tracker.remove(&self.cluster));
    }
}
