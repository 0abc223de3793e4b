//! The faults that are active on one API server, and their effect on requests.

use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::Fault;

use crate::server::{FaultInjection, InjectedAction};
use crate::status_error::{StatusError, StatusReason};
use crate::store::ObjectStore;

/// The average latency of a request without faults.
const BASE_LATENCY: Duration = Duration::from_millis(5);

/// The active faults of one API server, each with its number on the timeline.
#[derive(Debug)]
pub(crate) struct ActiveFaults {
    rng: Rng,
    faults: Vec<(usize, Fault)>,
    /// The snapshots that stale reads are served from, oldest first.
    stale_stores: Vec<(usize, ObjectStore)>,
}

impl ActiveFaults {
    /// Creates a server's faults, with none active.
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            faults: Vec::new(),
            stale_stores: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, number: usize, fault: &Fault) {
        self.faults.push((number, fault.clone()));
    }

    pub(crate) fn end(&mut self, number: usize) {
        self.faults.retain(|(own, _)| *own != number);
        self.stale_stores.retain(|(own, _)| *own != number);
    }

    /// Serves reads from `store`, unless an older snapshot is in use, until fault `number` ends.
    pub(crate) fn add_stale_store(&mut self, number: usize, store: ObjectStore) {
        self.stale_stores.push((number, store));
    }

    /// Returns whether the API server is unreachable for all clients.
    pub(crate) fn is_down(&self) -> bool {
        self.any(|fault| matches!(fault, Fault::Outage(_) | Fault::EtcdOutage))
    }

    /// Returns whether the cluster's etcd is down.
    pub(crate) fn is_etcd_down(&self) -> bool {
        self.any(|fault| *fault == Fault::EtcdOutage)
    }

    /// Returns whether the watchdog's connections hang.
    pub(crate) fn is_stalled(&self) -> bool {
        self.any(|fault| matches!(fault, Fault::Stall(_)))
    }

    /// Returns the latency that faults add to the watchdog's requests.
    fn added_latency(&self) -> Duration {
        let all = self.faults.iter().map(|(_, fault)| match fault {
            Fault::Latency(_, by) => *by,
            _ => Duration::ZERO,
        });
        all.sum()
    }

    /// Returns the faults to inject into a request of the watchdog.
    pub(crate) fn injection(&mut self) -> FaultInjection {
        if self.is_down() {
            return FaultInjection::reset();
        }
        if self.is_stalled() {
            return FaultInjection::hang();
        }
        let latency = BASE_LATENCY.mul_f64(0.5 + self.rng.f64());
        let mut injection = FaultInjection::delayed(latency + self.added_latency());
        if let Some((_, store)) = self.stale_stores.first() {
            injection.action = InjectedAction::ServeStale(store.clone());
        }
        for (_, fault) in &self.faults {
            if let Fault::Refusal { status, share, .. } = fault
                && self.rng.f64() < *share
            {
                injection.action = InjectedAction::Reject(rejection(*status, &mut self.rng));
            }
        }
        injection
    }

    fn any(&self, predicate: impl Fn(&Fault) -> bool) -> bool {
        self.faults.iter().any(|(_, fault)| predicate(fault))
    }
}

/// Builds the error of an injected rejection. Half of the 429s carry `retryAfterSeconds`: mostly a
/// short delay, as real API servers send, sometimes one that is too long to wait for.
fn rejection(status: u16, rng: &mut Rng) -> StatusError {
    let reason = match status {
        401 => StatusReason::Unauthorized,
        403 => StatusReason::Forbidden,
        429 => StatusReason::TooManyRequests,
        503 => StatusReason::ServiceUnavailable,
        504 => StatusReason::Timeout,
        _ => StatusReason::InternalError,
    };
    let mut error = StatusError::new(reason, "injected by the scenario");
    if reason == StatusReason::TooManyRequests && rng.bool() {
        let seconds = rng.choice([1, 1, 5, 30, 300]);
        let details = error.details.get_or_insert_default();
        details.insert("retryAfterSeconds".into(), seconds.into());
    }
    error
}

#[cfg(test)]
mod tests {
    use kelpie_config::scenario::FaultSite;
    use kelpie_core::Time;

    use super::*;
    use crate::clock::SimClock;
    use crate::resource::NAMESPACES;
    use crate::store::DeleteOptions;

    /// Returns the `retryAfterSeconds` of 100 rejections with this status code.
    fn retry_after(status: u16) -> Vec<Option<u64>> {
        let mut faults = ActiveFaults::new(Rng::with_seed(1));
        let (site, share) = (FaultSite::Seed, 1.0);
        let fault = Fault::Refusal {
            site,
            status,
            share,
        };
        faults.begin(0, &fault);
        let injections = (0..100).map(|_| faults.injection());
        let retry_after = injections.map(|injection| match injection.action {
            InjectedAction::Reject(error) => error.details?.get("retryAfterSeconds")?.as_u64(),
            action => panic!("{action:?}"),
        });
        retry_after.collect()
    }

    #[test]
    fn throttled_requests_may_get_retry_after() {
        let throttled = retry_after(429);
        for expected in [None, Some(1), Some(300)] {
            assert!(throttled.contains(&expected), "{expected:?}");
        }
        assert_eq!(retry_after(503), [None; 100]);
    }

    #[test]
    fn overlapping_stale_reads_end_separately() {
        let mut faults = ActiveFaults::new(Rng::with_seed(1));
        let clock = || SimClock::new(|| Time::from_unix(1_700_000_000, 0));
        let (old, new) = (ObjectStore::new(clock(), 1), ObjectStore::new(clock(), 2));
        let options = DeleteOptions::immediate();
        old.delete(&NAMESPACES, "", "default", &options).unwrap();
        let versions = (old.version(), new.version());
        assert_ne!(versions.0, versions.1);
        let served_version = |faults: &mut ActiveFaults| match faults.injection().action {
            InjectedAction::ServeStale(store) => Some(store.version()),
            _ => None,
        };
        faults.add_stale_store(0, old);
        faults.add_stale_store(1, new);
        assert_eq!(served_version(&mut faults), Some(versions.0));
        faults.end(0);
        assert_eq!(served_version(&mut faults), Some(versions.1));
        faults.end(1);
        assert_eq!(served_version(&mut faults), None);
    }
}
