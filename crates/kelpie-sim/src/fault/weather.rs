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
                fate.deed = Deed::Refuse(refusal(*status, &mut self.rng));
            }
        }
        fate
    }

    fn any(&self, is_it: impl Fn(&Fault) -> bool) -> bool {
        self.faults.iter().any(|(_, fault)| is_it(fault))
    }
}

/// Of those that come too often, every other one is told when to come back: soon, as real API servers do, or
/// not before it is too late.
fn refusal(status: u16, rng: &mut Rng) -> Refusal {
    let reason = match status {
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        429 => Reason::TooManyRequests,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        _ => Reason::InternalError,
    };
    let mut refusal = Refusal::new(reason, "by the script");
    if reason == Reason::TooManyRequests && rng.bool() {
        let seconds = rng.choice([1, 1, 5, 30, 300]);
        let details = refusal.details.get_or_insert_default();
        details.insert("retryAfterSeconds".into(), seconds.into());
    }
    refusal
}

#[cfg(test)]
mod tests {
    use kelpie_config::scenario::Site;
    use kelpie_core::Time;

    use super::*;
    use crate::clock::Clock;

    /// When the refused of a hundred requests are to come back.
    fn told(status: u16) -> Vec<Option<u64>> {
        let mut weather = Weather::new(Duration::ZERO, Rng::with_seed(1));
        let (site, share) = (Site::Seed, 1.0);
        let fault = Fault::Refusal {
            site,
            status,
            share,
        };
        weather.begin(0, &fault);
        let fates = (0..100).map(|_| weather.fate());
        let told = fates.map(|fate| match fate.deed {
            Deed::Refuse(refusal) => refusal.details?.get("retryAfterSeconds")?.as_u64(),
            deed => panic!("{deed:?}"),
        });
        told.collect()
    }

    #[test]
    fn some_that_come_too_often_are_told_when_to_come_back() {
        let told_often = told(429);
        for expected in [None, Some(1), Some(300)] {
            assert!(told_often.contains(&expected), "{expected:?}");
        }
        assert_eq!(told(503), [None; 100]);
    }

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
