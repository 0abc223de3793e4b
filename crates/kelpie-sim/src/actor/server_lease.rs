//! The Lease by which an API server announces itself.

use std::time::Duration;

use kelpie_core::Time;
use serde_json::json;

use crate::resource::LEASES;
use crate::store::ObjectStore;

/// The namespace of the Lease.
const NAMESPACE: &str = "kube-system";

/// The name of the Lease. Real ones end in a hash of the host name.
const NAME: &str = "apiserver-kvyyxgmhqsdpc2w7znl4b5tj6e";

/// The interval of renewals, and the duration that the API server writes into the Lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const DURATION_SECONDS: u64 = 3_600;

/// The Lease of an API server. Its renewals move the store's version on even if no client writes
/// anything, so a version that stands still is one of a cache that stands still.
#[derive(Debug)]
pub struct ServerLease {
    next_renewal: Time,
}

impl ServerLease {
    /// Creates the Lease.
    pub fn new(store: &ObjectStore, now: Time) -> Self {
        let lease = json!({
            "metadata": { "name": NAME },
            "spec": {
                "holderIdentity": NAME,
                "leaseDurationSeconds": DURATION_SECONDS,
                "renewTime": now.to_string(),
            },
        });
        // A new store has no such Lease.
        let _ = store.create(&LEASES, NAMESPACE, lease);
        let next_renewal = now.after(RENEW_INTERVAL);
        Self { next_renewal }
    }

    /// Makes the renewals that are due until `now`, unless the API server has been down since the
    /// last call.
    pub fn catch_up(&mut self, store: &ObjectStore, is_down: bool, now: Time) {
        while self.next_renewal <= now {
            if !is_down {
                // A client may have deleted the Lease.
                let _ = store.renew(NAMESPACE, NAME, self.next_renewal);
            }
            self.next_renewal = self.next_renewal.after(RENEW_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimClock;

    #[test]
    fn version_moves_unless_server_is_down() {
        let at = |seconds: i64| Time::from_unix(1_700_000_000 + seconds, 0);
        let store = ObjectStore::new(SimClock::new(move || at(0)), 1);
        let mut lease = ServerLease::new(&store, at(0));
        let version = store.version();
        lease.catch_up(&store, false, at(35));
        assert_eq!(store.version(), version + 3);
        lease.catch_up(&store, true, at(65));
        assert_eq!(store.version(), version + 3);
        lease.catch_up(&store, false, at(70));
        assert_eq!(store.version(), version + 4);
    }
}
