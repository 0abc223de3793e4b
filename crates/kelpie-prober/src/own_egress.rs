//! The prober's own egress, as the external probes of all clusters show it.

use std::sync::Arc;

use kelpie_core::Time;
use kelpie_core::prober::{EgressLedger, EgressState, ProbeResult};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tracing::{info, warn};

/// The external probes of all clusters. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OwnEgress {
    ledger: Arc<Mutex<EgressLedger>>,
    suspected: Gauge,
}

/// The entry of one cluster. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct EgressEntry {
    own_egress: OwnEgress,
    cluster: Arc<str>,
}

impl OwnEgress {
    /// Creates an empty ledger. `suspected` shows the suspicion.
    pub(crate) fn new(suspected: Gauge) -> Self {
        Self {
            ledger: Arc::default(),
            suspected,
        }
    }

    pub(crate) fn entry(&self, cluster: &Arc<str>) -> EgressEntry {
        EgressEntry {
            own_egress: self.clone(),
            cluster: Arc::clone(cluster),
        }
    }

    /// Changes the ledger, and reports a suspicion that begins or ends with it.
    fn update(&self, change: impl FnOnce(&mut EgressLedger)) {
        let mut ledger = self.ledger.lock();
        let was_suspected = ledger.is_suspected();
        change(&mut ledger);
        let is_suspected = ledger.is_suspected();
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
            .update(|ledger| ledger.record(&self.cluster, result, at, leases_renewed));
    }

    /// Returns the state of the egress, for a decision about this cluster.
    pub(crate) fn state(&self, now: Time) -> EgressState {
        self.own_egress.ledger.lock().state(&self.cluster, now)
    }
}

impl Drop for EgressEntry {
    fn drop(&mut self) {
        self.own_egress
            .update(|ledger| ledger.remove(&self.cluster));
    }
}
