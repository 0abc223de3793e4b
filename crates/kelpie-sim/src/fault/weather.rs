//! What the faults of the moment make of one API server.

use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::Fault;

use crate::refusal::{Reason, Refusal};
use crate::server::{Deed, Fate};
use crate::store::Store;

/// The faults that act on one API server now, each with its number in the script.
#[derive(Debug)]
pub(crate) struct Weather {
    /// How long a request is under way, on the average, when nothing is wrong.
    usual: Duration,
    rng: Rng,
    faults: Vec<(usize, Fault)>,
    /// What stale lists are made from, the oldest first.
    past: Vec<(usize, Store)>,
}

impl Weather {
    /// Nothing is wrong.
    pub(crate) fn new(usual: Duration, rng: Rng) -> Self {
        Self {
            usual,
            rng,
            faults: Vec::new(),
            past: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, number: usize, fault: &Fault) {
        self.faults.push((number, fault.clone()));
    }

    pub(crate) fn end(&mut self, number: usize) {
        self.faults.retain(|(own, _)| *own != number);
        self.past.retain(|(own, _)| *own != number);
    }

    /// From now on lists show what is in `past`, unless they show something older already.
    pub(crate) fn remember(&mut self, number: usize, past: Store) {
        self.past.push((number, past));
    }

    /// It is there for nobody.
    pub(crate) fn is_down(&self) -> bool {
        self.any(|fault| matches!(fault, Fault::Outage(_) | Fault::EtcdOutage))
    }

    /// Its etcd is gone.
    pub(crate) fn lacks_etcd(&self) -> bool {
        self.any(|fault| *fault == Fault::EtcdOutage)
    }

    /// The watchdog's connections hang.
    pub(crate) fn hangs(&self) -> bool {
        self.any(|fault| matches!(fault, Fault::Stall(_)))
    }

    /// How much longer the watchdog waits.
    fn latency(&self) -> Duration {
        let all = self.faults.iter().map(|(_, fault)| match fault {
            Fault::Latency(_, by) => *by,
            _ => Duration::ZERO,
        });
        all.sum()
    }

    /// What becomes of a request of the watchdog.
    pub(crate) fn fate(&mut self) -> Fate {
        if self.is_down() {
            return Fate::reset();
        }
        if self.hangs() {
            return Fate::hang();
        }
        let usual = self.usual.mul_f64(0.5 + self.rng.f64());
        let mut fate = Fate::delayed(usual + self.latency());
        if let Some((_, past)) = self.past.first() {
            fate.deed = Deed::ServeFrom(past.clone());
        }
        for (_, fault) in &self.faults {
            if let Fault::Refusal { status, share, .. } = fault
                && self.rng.f64() < *share
            {
                fate.deed = Deed::Refuse(refusal(*status));
            }
        }
        fate
    }

    fn any(&self, is_it: impl Fn(&Fault) -> bool) -> bool {
        self.faults.iter().any(|(_, fault)| is_it(fault))
    }
}

fn refusal(status: u16) -> Refusal {
    let reason = match status {
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        429 => Reason::TooManyRequests,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        _ => Reason::InternalError,
    };
    Refusal::new(reason, "by the script")
}

#[cfg(test)]
mod tests {
    use kelpie_core::Time;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn stale_reads_that_overlap_end_one_by_one() {
        let mut weather = Weather::new(Duration::ZERO, Rng::with_seed(1));
        let clock = || Clock::new(|| Time::from_unix(1_700_000_000, 0));
        let (old, new) = (Store::new(clock(), 1), Store::new(clock(), 2));
        old.purge("default");
        let versions = (old.version(), new.version());
        assert_ne!(versions.0, versions.1);
        let shown = |weather: &mut Weather| match weather.fate().deed {
            Deed::ServeFrom(store) => Some(store.version()),
            _ => None,
        };
        weather.remember(0, old);
        weather.remember(1, new);
        assert_eq!(shown(&mut weather), Some(versions.0));
        weather.end(0);
        assert_eq!(shown(&mut weather), Some(versions.1));
        weather.end(1);
        assert_eq!(shown(&mut weather), None);
    }
}
