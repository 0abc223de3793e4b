//! The cut of a trial: the time from which no lease is renewed, and the times that follow from it.

use std::time::Duration;

use tokio::time::Instant;

use super::fault::RaceFault;
use crate::landscape::Timings;

/// The time that a possible fence leaves before the deadline, beyond the stop of the pod.
const SPARE: Duration = Duration::from_secs(2);

/// The time between two requests of the least busy prober that still has to succeed.
const GRID: Duration = Duration::from_secs(1);

/// The time that an API server takes to start.
const RESTART: Duration = Duration::from_secs(5);

/// The largest number of requests in a row that a random fault rejects.
const MAX_REJECTED: u32 = 1_000;

/// A partition of all nodes of a cluster.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The time from which no lease was renewed.
    pub at: Instant,
    /// The last renewal of each node, the oldest first.
    pub renewals: Vec<Instant>,
    /// The first instant at which the node controller may mark a node Unknown.
    pub deadline: Instant,
    /// The durations of the cluster.
    pub timings: Timings,
    /// The time from scaling a Deployment down until its pod is gone.
    pub pod_stop: Duration,
}

impl Cut {
    /// The expected trip: 60 % of the leases are expired, or the deadline is within the reserve.
    pub fn trip(&self) -> Instant {
        let last_call = before(self.deadline, self.timings.reserve);
        self.expired().min(last_call)
    }

    /// Returns true if a prober that asks once a second could have won the race, given this fault.
    ///
    /// A fence needs a list of leases that shows ground for it, and then a write that lands before
    /// the deadline, with the stop of the pod and two seconds to spare. Ground is the trip, or 60 %
    /// of the nodes silent for half a grace period once the fault has shown itself or no more time
    /// is left. `rng` draws the results of the requests that a fault rejects at random.
    pub fn is_winnable(&self, fault: RaceFault, rng: &mut fastrand::Rng) -> bool {
        self.first_write(fault, rng) <= self.last_useful_write()
    }

    /// The earliest instant at which a write with evidence can land.
    fn first_write(&self, fault: RaceFault, rng: &mut fastrand::Rng) -> Instant {
        match fault {
            // The death of one replica rejects no request of the other.
            RaceFault::None | RaceFault::LeaderKill(_) => self.ground(None),
            RaceFault::SeedLatency(latency) => self.ground(Some(self.at)) + latency,
            RaceFault::SeedThrottling(share) | RaceFault::ShootErrors(share) => {
                let rejected = (0..MAX_REJECTED).take_while(|_| rng.f64() < share).count();
                let rejected = u32::try_from(rejected).unwrap_or(MAX_REJECTED);
                self.ground(Some(self.at)) + GRID * rejected
            }
            RaceFault::ShootAway(length, at) => {
                let start = before(at.resolve(self), length / 2);
                let without = self.ground(None);
                if without < start {
                    without
                } else if self.silent() <= start {
                    // Nothing can have renewed since the last list before the outage.
                    start + GRID
                } else {
                    // The silence during the outage proves nothing.
                    self.silent().max(start) + length
                }
            }
            RaceFault::RotationWithWatchDrop(_, at) => {
                let at = at.resolve(self);
                let without = self.ground(None);
                // One request reads the Secret, the next one the leases.
                let again = self.ground(Some(at)).max(at + GRID * 2);
                if without < at { without } else { again }
            }
            RaceFault::SeedAway(length, at) | RaceFault::ShootStall(length, at) => {
                let start = at.resolve(self);
                let ground = self.ground(Some(start));
                let is_away = (start..start + length).contains(&ground);
                if is_away { start + length } else { ground }
            }
            RaceFault::ShootRestart(at) => self.ground(None).max(at.resolve(self) + RESTART),
            // No replica can act: only a guard helps.
            RaceFault::ProberKill(_) | RaceFault::CredentialsRefused => self.deadline,
        }
    }

    /// The time from which a list shows ground for a fence, if the fault shows itself at `shown`.
    fn ground(&self, shown: Option<Instant>) -> Instant {
        let last = self.last_useful_write();
        let weak = self
            .silent()
            .max(shown.map_or(last, |shown| shown.min(last)));
        self.expired().min(weak)
    }

    /// The time at which 60 % of the leases are expired.
    fn expired(&self) -> Instant {
        self.renewed() + self.timings.grace.mul_f64(0.75)
    }

    /// The time at which 60 % of the nodes have been silent for long enough to suspect them.
    fn silent(&self) -> Instant {
        self.renewed() + (self.timings.grace / 2).max(self.timings.renewal * 2)
    }

    /// The last renewal among the oldest 60 %.
    fn renewed(&self) -> Instant {
        let count = (self.renewals.len() * 3).div_ceil(5);
        let last = self.renewals.get(count.saturating_sub(1));
        last.copied().unwrap_or(self.at)
    }

    fn last_useful_write(&self) -> Instant {
        before(self.deadline, self.pod_stop + SPARE)
    }
}

fn before(at: Instant, time: Duration) -> Instant {
    at.checked_sub(time).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five nodes, renewed every other second before the cut.
    fn cut() -> Cut {
        let start = Instant::now();
        let at = start + Duration::from_secs(10);
        let renewals = (0..5).map(|number| start + Duration::from_secs(2 * number));
        Cut {
            at,
            renewals: renewals.collect(),
            deadline: start + Duration::from_secs(40),
            timings: Timings::REAL,
            pod_stop: Duration::from_secs(2),
        }
    }

    fn is_winnable(fault: &str) -> bool {
        let mut rng = fastrand::Rng::with_seed(1);
        cut().is_winnable(fault.parse().unwrap(), &mut rng)
    }

    #[test]
    fn trip_is_the_expiry_of_60_percent() {
        let cut = cut();
        assert_eq!(cut.trip() - cut.at, Duration::from_secs(24));
        let late = Cut {
            renewals: cut.renewals[4..].to_vec(),
            ..cut.clone()
        };
        assert_eq!(late.deadline - late.trip(), Timings::REAL.reserve);
    }

    #[test]
    fn short_faults_are_winnable() {
        for fault in [
            "none",
            "leader-kill@T",
            "seed-latency=3s",
            "seed-latency=12s",
            "seed-429=0",
            "shoot-away=5s@T",
            "shoot-away=10s@T",
            "rotation+watch-drop",
            "seed-away=5s",
            "shoot-restart@20s",
        ] {
            assert!(is_winnable(fault), "{fault}");
        }
    }

    #[test]
    fn faults_without_evidence_or_write_are_not() {
        for fault in [
            "seed-latency=13s",
            "seed-429=1",
            "shoot-503=1",
            // It began before the nodes were silent for long, and ends after the deadline.
            "shoot-away=30s@20s",
            "seed-away=60s",
            "shoot-stall=60s",
            "prober-kill",
            "credentials-refused",
        ] {
            assert!(!is_winnable(fault), "{fault}");
        }
    }
}
