//! An oracle that says whether a partition could be fenced in time despite the other faults.
//!
//! It knows the truth of a run, but judges for an observer without knowledge of the future, who
//! asks once a second: for a lease list, and then for a write to the seed.
//!
//! - The *silence* of a node counts only time in which its API server was there, up to the
//!   *request* of a list: what is renewed while the list is under way is not in it.
//! - There is *ground* for a fence once enough nodes are expired. If the first deadline is within
//!   the reserve, or a fault has shown itself lately, half the grace period of silence is enough.
//! - *Evidence* is a list that is answered, not stale, and shows ground. While the API server is
//!   away, the last list before counts. After half a grace period without any list, nothing tells
//!   whether kubelets could renew meanwhile, so it takes new observation of 1.5 renew periods.
//! - An *act* is a write after the evidence was answered. Its pods have to be gone 2 s before the
//!   first deadline.
//!
//! Random refusals are weighed by their odds: a fence counts as possible if an observer who asks
//! once a second fails in fewer than one of 1,000 cases. In doubt it counts as impossible.

mod access;

use std::time::Duration;

use kelpie_core::{Fraction, Time};

pub use access::FaultPeriod;
use access::{Access, Ask};
use kelpie_sim::scenario::FaultSite;

/// The interval of asks.
const GRID: Duration = Duration::from_secs(1);

/// P: the interval at which kubelets renew their leases.
const RENEW_PERIOD: Duration = Duration::from_secs(10);

/// The longest time between two lists of a healthy cluster.
const LONGEST_INTERVAL: Duration = Duration::from_secs(12);

/// The default of `fenceReserve`.
const FENCE_RESERVE: Duration = Duration::from_secs(3);

/// The time to spare between the end of the pods and the first deadline.
const SPARE: Duration = Duration::from_secs(2);

/// The time for which a fault that has shown itself is remembered: measured delays fade within it.
const MEMORY: Duration = Duration::from_mins(1);

/// The odds of failure below which something counts as certain.
const NEGLIGIBLE: f64 = 1e-3;

/// The lead of the simulated asks over the cut: a fault before it may have left the observer blind.
const LEAD: Duration = Duration::from_mins(1);

/// A partition as it really was.
#[derive(Clone, Debug)]
pub struct PartitionTruth {
    /// The time of the cut.
    pub cut_at: Time,
    /// The last renewal of each node that was cut off.
    pub renewals: Vec<Time>,
    /// The number of all nodes of the cluster.
    pub candidates: usize,
}

/// The chance of a fence in time, in one partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The time at which the first node may turn Unknown.
    pub deadline: Time,
    /// The odds that an observer who asks once a second fences too late.
    pub failure_odds: f64,
}

impl Outlook {
    /// Returns whether a fence in time was possible.
    pub fn is_possible(&self) -> bool {
        self.failure_odds < NEGLIGIBLE
    }
}

/// Judges the partitions of one cluster.
#[derive(Debug)]
pub struct Oracle {
    access: Access,
    grace: Duration,
    fraction: Fraction,
}

impl Oracle {
    /// Creates an oracle for a cluster with the grace period `grace`, in which `fraction` of the
    /// nodes have to be silent. `faults` are those that affect the cluster, the seed or the
    /// watchdog, of which `replicas` run.
    pub fn new(
        faults: Vec<FaultPeriod>,
        replicas: usize,
        grace: Duration,
        fraction: Fraction,
    ) -> Self {
        Self {
            access: Access::new(faults, replicas),
            grace,
            fraction,
        }
    }

    /// Returns what was possible in a partition. `None` if too few nodes were cut off for a fence.
    pub fn outlook(&self, truth: &PartitionTruth) -> Option<Outlook> {
        let deadline = truth.renewals.iter().min()?.after(self.grace);
        if !self.is_quorum(truth, |_| true) {
            return None;
        }
        let start = truth.cut_at.before(LEAD);
        let end = deadline.max(truth.cut_at).since(start).as_secs();
        let grid: Vec<Time> = (0..=end)
            .map(|second| start.after(GRID * u32::try_from(second).unwrap_or(u32::MAX)))
            .collect();
        let evidence = self.evidence(truth, deadline, &grid);
        let acts: Vec<(Time, f64)> = grid
            .iter()
            .map(|at| (*at, self.access.ask(FaultSite::Seed, *at)))
            .filter(|(at, ask)| self.access.gone_at(at.after(ask.delay)).after(SPARE) < deadline)
            .map(|(at, ask)| (at, ask.passes))
            .collect();
        let failure_odds = acts.iter().map(|(split, _)| {
            let known = evidence.iter().filter(|(answered, _)| answered <= split);
            let acting = acts.iter().filter(|(at, _)| at >= split);
            all_fail(known) + all_fail(acting)
        });
        Some(Outlook {
            deadline,
            failure_odds: failure_odds.fold(1.0, f64::min),
        })
    }

    /// Returns whether enough nodes were silent at `at` for the weakest ground of a fence.
    fn has_weakest_ground(&self, truth: &PartitionTruth, at: Time) -> bool {
        let weak = self.weak_silence();
        self.is_quorum(truth, |renewed| self.access.silence(renewed, at) >= weak)
    }

    /// Returns whether enough nodes seemed silent at `at` to an observer that asks every 12 s while
    /// nothing is suspicious, and so notices the beginning of an outage late.
    pub fn has_apparent_ground(&self, truth: &PartitionTruth, at: Time) -> bool {
        let weak = self.weak_silence();
        let silence = |renewed| self.access.apparent_silence(renewed, at, LONGEST_INTERVAL);
        self.is_quorum(truth, |renewed| silence(renewed) >= weak)
    }

    /// Returns whether enough leases were expired at `at`. The age of a lease counts in full, but
    /// after an outage the kubelets have one and a half periods to renew it.
    pub fn has_expired_leases(&self, truth: &PartitionTruth, at: Time) -> bool {
        self.is_quorum(truth, |renewed| {
            at.since(renewed) >= self.grace.mul_f64(0.75)
                && self.access.silence(renewed, at) >= RENEW_PERIOD.mul_f64(1.5)
        })
    }

    /// Returns the lists that show ground: the time from which each is known, and its odds.
    fn evidence(&self, truth: &PartitionTruth, deadline: Time, grid: &[Time]) -> Vec<(Time, f64)> {
        let lists: Vec<Ask> = grid
            .iter()
            .map(|at| self.access.ask(FaultSite::Shoot, *at))
            .collect();
        let mut evidence = Vec::new();
        let (mut blind_until, mut last) = (Time::MIN, None);
        for (index, (at, list)) in grid.iter().zip(&lists).enumerate() {
            if self.is_blind(&lists, index) {
                blind_until = *at;
            }
            if list.passes > 0.0 && at.since(blind_until) >= RENEW_PERIOD.mul_f64(1.5) {
                last = Some((*at, list.passes));
            } else if !self.access.is_down(*at) {
                last = None;
            }
            let Some((listed, passes)) = last else {
                continue;
            };
            let known = at.after(list.delay);
            if at.since(listed) <= self.grace / 2 && self.has_ground(truth, deadline, listed, known)
            {
                evidence.push((known, passes));
            }
        }
        evidence
    }

    /// Returns whether a list that was asked for at `listed` shows ground, at the time `known`.
    fn has_ground(
        &self,
        truth: &PartitionTruth,
        deadline: Time,
        listed: Time,
        known: Time,
    ) -> bool {
        let expired = self.grace.mul_f64(0.75);
        if self.is_quorum(truth, |renewed| {
            self.access.silence(renewed, listed) >= expired
        }) {
            return true;
        }
        let delays =
            [FaultSite::Shoot, FaultSite::Seed].map(|site| self.access.ask(site, listed).delay);
        let reserve = FENCE_RESERVE + delays[0] + delays[1];
        (deadline <= known.after(reserve) || self.has_shown(known))
            && self.has_weakest_ground(truth, listed)
    }

    /// Returns whether requests have failed or were slow lately, beyond doubt.
    fn has_shown(&self, at: Time) -> bool {
        let seconds = u32::try_from(MEMORY.as_secs()).unwrap_or(u32::MAX);
        let unseen = (1..=seconds).map(|second| {
            let asked = at.before(GRID * second);
            let shows = |site| self.access.ask(site, asked).shows;
            (1.0 - shows(FaultSite::Shoot)) * (1.0 - shows(FaultSite::Seed))
        });
        unseen.product::<f64>() < NEGLIGIBLE
    }

    /// Returns whether possibly no list got through in the half grace period before this one.
    fn is_blind(&self, lists: &[Ask], index: usize) -> bool {
        let length = usize::try_from(self.grace.as_secs() / 2).unwrap_or(usize::MAX);
        let Some(first) = index.checked_sub(length) else {
            return false;
        };
        let before = lists.get(first..index).unwrap_or_default();
        before.iter().map(|ask| 1.0 - ask.passes).product::<f64>() > NEGLIGIBLE
    }

    /// Returns the silence that is the weakest ground.
    fn weak_silence(&self) -> Duration {
        (self.grace / 2).max(2 * RENEW_PERIOD)
    }

    fn is_quorum(&self, truth: &PartitionTruth, predicate: impl Fn(Time) -> bool) -> bool {
        let count = truth.renewals.iter().filter(|renewed| predicate(**renewed));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.fraction
            .is_reached(number(count.count()), number(truth.candidates))
    }
}

/// Returns the odds that all of these asks fail.
fn all_fail<'a>(asks: impl Iterator<Item = &'a (Time, f64)>) -> f64 {
    asks.map(|(_, passes)| 1.0 - passes).product()
}

#[cfg(test)]
mod tests;
