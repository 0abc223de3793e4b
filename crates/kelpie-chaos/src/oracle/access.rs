//! The requests that faults let through.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, FaultSite, Incident, RequestSelection};

/// The time that a request takes without faults, at most.
const USUAL_DELAY: Duration = Duration::from_millis(10);

/// The additional delay by which a fault shows itself.
const NOTICEABLE: Duration = Duration::from_millis(500);

/// The time that pods usually take to stop.
const POD_STOP: Duration = Duration::from_secs(2);

/// The time after a rotation in which an observer may still use the old credentials: a request
/// fails, the Secret is read, and the next request is made.
const NEW_CREDENTIALS: Duration = Duration::from_secs(3);

/// The time that a new process observes before it judges.
const START_UP: Duration = Duration::from_mins(1);

/// A fault with its start and end.
#[derive(Clone, Debug)]
pub struct FaultPeriod {
    /// The start.
    pub begin: Time,
    /// The end.
    pub end: Time,
    /// The fault, with the requests that it affects.
    pub incident: Incident,
}

impl FaultPeriod {
    fn is_active(&self, at: Time) -> bool {
        self.begin <= at && at < self.end
    }
}

/// A request of the grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// The odds that it is answered from current data.
    pub(super) passes: f64,
    /// The odds that it fails, is refused, or is noticeably slow.
    pub(super) shows: f64,
    /// The time until its answer.
    pub(super) delay: Duration,
}

impl Ask {
    fn fail(&mut self) {
        (self.passes, self.shows) = (0.0, 1.0);
    }
}

/// The faults of a cluster, the seed and the watchdog.
#[derive(Debug)]
pub(super) struct Access {
    faults: Vec<FaultPeriod>,
    replicas: usize,
}

impl Access {
    pub(super) fn new(faults: Vec<FaultPeriod>, replicas: usize) -> Self {
        Self { faults, replicas }
    }

    /// Returns the fate of a request at `at`: a lease list if the site is the shoot, else a write.
    pub(super) fn ask(&self, asked: FaultSite, at: Time) -> Ask {
        let mut ask = Ask {
            passes: 1.0,
            shows: 0.0,
            delay: USUAL_DELAY,
        };
        let is_list = asked == FaultSite::Shoot;
        for FaultPeriod {
            begin,
            end,
            incident,
        } in &self.faults
        {
            let is_active = *begin <= at && at < *end;
            let affects_lists = [RequestSelection::All, RequestSelection::Leases];
            let is_affected = is_active
                && (incident.requests == RequestSelection::All
                    || is_list && affects_lists.contains(&incident.requests));
            match &incident.fault {
                Fault::Outage(site) | Fault::Stall(site) if is_affected && *site == asked => {
                    ask.fail();
                }
                // Its API server comes back some time after it.
                Fault::EtcdOutage if *begin <= at && is_list => ask.fail(),
                Fault::Latency(site, by) if is_affected && *site == asked => {
                    ask.delay += *by;
                    ask.shows = if *by < NOTICEABLE { ask.shows } else { 1.0 };
                }
                Fault::Refusal { site, share, .. } if is_affected && *site == asked => {
                    ask.passes *= 1.0 - share;
                    ask.shows = 1.0 - (1.0 - ask.shows) * (1.0 - share);
                }
                Fault::BodyCut { site, .. } if is_active && is_list && *site == asked => {
                    ask.fail();
                }
                Fault::StaleReads { site, share } if is_active && is_list && *site == asked => {
                    ask.passes *= 1.0 - share;
                }
                Fault::Rotation if is_list && *begin <= at && at < begin.after(NEW_CREDENTIALS) => {
                    ask.fail();
                }
                Fault::CpuStarvation if is_active => ask.passes = 0.0,
                Fault::Pause if is_active && self.replicas < 2 => ask.passes = 0.0,
                Fault::Crash if self.replicas < 2 && *begin <= at && at < end.after(START_UP) => {
                    ask.passes = 0.0;
                }
                _ => {}
            }
        }
        ask
    }

    /// Returns whether the cluster's API server is away for all clients.
    pub(super) fn is_down(&self, at: Time) -> bool {
        let mut outages = self.outages();
        outages.any(|period| period.is_active(at))
    }

    /// Returns the time from a renewal to `until` in which the API server was there.
    pub(super) fn silence(&self, renewed: Time, until: Time) -> Duration {
        self.apparent_silence(renewed, until, Duration::ZERO)
    }

    /// Returns the same for an observer that notices outages this much later.
    pub(super) fn apparent_silence(&self, renewed: Time, until: Time, late: Duration) -> Duration {
        let away = self.outages().map(|period| {
            let begin = period.begin.after(late).max(renewed);
            period.end.min(until).since(begin)
        });
        until.since(renewed).saturating_sub(away.sum())
    }

    fn outages(&self) -> impl Iterator<Item = &FaultPeriod> {
        self.faults.iter().filter(|period| {
            matches!(
                period.incident.fault,
                Fault::Outage(FaultSite::Shoot) | Fault::EtcdOutage
            )
        })
    }

    /// Returns the time at which the pods are gone after a write that lands at `landed`.
    pub(super) fn gone_at(&self, landed: Time) -> Time {
        let active = self.faults.iter().filter(|period| period.is_active(landed));
        let (mut from, mut stop) = (landed, None);
        for period in active {
            match period.incident.fault {
                Fault::ControllerManagerOutage => from = from.max(period.end),
                Fault::SlowPods(by) => stop = stop.max(Some(by)),
                _ => {}
            }
        }
        from.after(stop.unwrap_or(POD_STOP))
    }
}
