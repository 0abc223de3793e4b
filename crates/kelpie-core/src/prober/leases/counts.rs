//! The leases of a cluster counted at one instant, and the instant at which they would trip.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::Heartbeat;
use super::limits::GraceLimits;
use super::tracker::{LeaseRole, LeaseTracker, TrackedLease};
use crate::Time;
use crate::prober::ProbeSettings;
use crate::prober::nodes::{Exclusion, Exclusions};

/// The leases of a cluster, counted at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseCounts {
    /// The candidates: nodes whose leases count.
    pub candidates: u32,
    /// The candidates whose lease is expired.
    pub expired: u32,
    /// The candidates that have been silent for half the grace period or longer.
    pub silent: u32,
    /// The candidates whose lease proves nothing yet, after the start or a gap between lists.
    pub unproven: u32,
    /// The candidates that have not renewed since the trip; `None` without a trip.
    pub not_renewed: Option<u32>,
    /// The nodes that have a lease, candidates or not.
    pub nodes: u32,
    /// The nodes with a lease that have not renewed since the trip; `None` without a trip.
    pub nodes_not_renewed: Option<u32>,
    /// The nodes that do not count, by cause.
    pub excluded: Exclusions,
    /// The earliest instant still ahead at which a candidate may turn Unknown.
    pub deadline: Option<Time>,
    /// The earliest expiry still ahead, and before the horizon, for which the nodes should be read
    /// again.
    #[serde(skip)]
    pub(crate) first_expiry: Option<Time>,
    /// The candidates that will be expired or silent by the horizon unless they renew.
    #[serde(skip)]
    due_by_horizon: u32,
}

/// Saves all fields of counts: `/debug/state` has no use for those that a record needs.
pub(crate) mod complete {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::LeaseCounts;
    use crate::Time;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CompleteCounts {
        counts: LeaseCounts,
        first_expiry: Option<Time>,
        due_by_horizon: u32,
    }

    pub(crate) fn serialize<S: Serializer>(
        counts: &LeaseCounts,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let complete = CompleteCounts {
            counts: *counts,
            first_expiry: counts.first_expiry,
            due_by_horizon: counts.due_by_horizon,
        };
        complete.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<LeaseCounts, D::Error> {
        let complete = CompleteCounts::deserialize(deserializer)?;
        Ok(LeaseCounts {
            first_expiry: complete.first_expiry,
            due_by_horizon: complete.due_by_horizon,
            ..complete.counts
        })
    }
}

/// The instants that leases are compared with when they are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountContext {
    /// The start of the list.
    pub(crate) now: Time,
    /// The instant at which the cluster tripped.
    pub(crate) tripped: Option<Time>,
    /// The instant at which the last release was acknowledged; [`Time::MIN`] if there was none.
    pub(crate) released: Time,
    /// The trip instant matters only up to this instant.
    pub(crate) horizon: Time,
    /// The time before the deadline from which silent candidates suffice to trip; zero if they
    /// never do.
    pub(crate) reserve: Duration,
}

/// The cause of a trip of the lease probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TripCause {
    /// Enough candidates are expired.
    Expired,
    /// The deadline is close, and enough candidates are silent.
    LastCall,
}

impl LeaseCounts {
    pub(crate) fn count(
        tracker: &LeaseTracker,
        limits: &GraceLimits,
        context: &CountContext,
    ) -> Self {
        let CountContext {
            now,
            tripped,
            released,
            horizon,
            ..
        } = *context;
        let nodes_fresh_until = tracker.nodes_read_at().plus(limits.quarter());
        let mut counts = Self {
            excluded: tracker.exclusions(),
            ..Self::default()
        };
        // Comparing renewals instead of deadlines gives the same order with less arithmetic.
        let missed_before = now.plus(-limits.grace());
        let not_due_after = horizon.plus(-limits.half());
        let (mut oldest, mut first_expiry) = (Time::MAX, Time::MAX);
        let (mut not_renewed, mut nodes_not_renewed) = (0, 0);
        for entry in tracker.entries() {
            let heartbeat = &entry.heartbeat;
            if entry.role == LeaseRole::Orphan {
                continue;
            }
            let renewed = tripped.is_some_and(|trip| heartbeat.renewed_since(trip, now, limits));
            counts.nodes += 1;
            nodes_not_renewed += u32::from(!renewed);
            if entry.role == LeaseRole::Excluded {
                continue;
            }
            if is_too_young(heartbeat, entry.created, now, limits) {
                counts.excluded.add(Exclusion::NeverRenewed);
                continue;
            }
            counts.candidates += 1;
            not_renewed += u32::from(!renewed);
            counts.unproven += u32::from(heartbeat.is_unproven(now, limits));
            let alive_at = heartbeat.renewal().max(released);
            if alive_at > missed_before {
                oldest = oldest.min(alive_at);
            }
            if heartbeat.renewal() > not_due_after {
                // Neither silent nor expired by the horizon, as nearly all in a healthy cluster.
                continue;
            }
            let expires_at = heartbeat.expires_at(limits);
            let silent_at = heartbeat.silent_at(limits, &tracker.outages);
            counts.expired += u32::from(expires_at <= now);
            counts.silent += u32::from(silent_at <= now);
            counts.due_by_horizon += u32::from(expires_at.min(silent_at) <= horizon);
            if expires_at > now && expires_at > nodes_fresh_until {
                first_expiry = first_expiry.min(expires_at);
            }
        }
        counts.not_renewed = tripped.map(|_| not_renewed);
        counts.nodes_not_renewed = tripped.map(|_| nodes_not_renewed);
        let known = |instant: Time| (instant < Time::MAX).then_some(instant);
        counts.deadline = known(oldest).map(|alive_at| alive_at.plus(limits.grace()));
        counts.first_expiry = known(first_expiry);
        counts
    }

    /// Returns the cause if the counts trip the lease probe at `now`, which may be later than the
    /// list.
    pub(crate) fn trips(
        &self,
        now: Time,
        reserve: Duration,
        settings: &ProbeSettings,
    ) -> Option<TripCause> {
        if settings
            .failure_fraction
            .is_reached(self.expired, self.candidates)
        {
            return Some(TripCause::Expired);
        }
        let last_call_at = self.last_call_at(reserve, settings);
        let last_call = last_call_at.is_some_and(|at| at <= now);
        last_call.then_some(TripCause::LastCall)
    }

    /// Returns the instant from which the silence of this list trips the probe, because the
    /// deadline is close. `None` if too few candidates are silent.
    pub(crate) fn last_call_at(&self, reserve: Duration, settings: &ProbeSettings) -> Option<Time> {
        self.deadline
            .filter(|_| self.is_silent(settings) && !reserve.is_zero())
            .map(|deadline| deadline.before(reserve))
    }

    /// Returns whether enough candidates are silent for a fence at last call.
    pub(crate) fn is_silent(&self, settings: &ProbeSettings) -> bool {
        let failure = settings.failure_fraction;
        failure.is_reached(self.silent, self.candidates)
    }

    /// Returns T, the earliest instant after now at which the counts would trip if no lease were
    /// renewed. `None` if that is after the horizon, or never.
    pub(crate) fn trip_instant(
        &self,
        tracker: &mut LeaseTracker,
        limits: &GraceLimits,
        context: &CountContext,
        settings: &ProbeSettings,
    ) -> Option<Time> {
        let quorum = settings.failure_fraction.quorum(self.candidates);
        if quorum == 0 || self.due_by_horizon < quorum {
            return None;
        }
        let mut scratch = std::mem::take(&mut tracker.scratch);
        let mut quorum_at = |instant: &dyn Fn(&Heartbeat) -> Time| {
            scratch.clear();
            scratch.extend(candidates(tracker, limits, context.now).map(instant));
            let (_, nth, _) = scratch.select_nth_unstable(quorum as usize - 1);
            *nth
        };
        let expired_at = quorum_at(&|heartbeat| heartbeat.expires_at(limits));
        let outages = &tracker.outages;
        let silent_at = quorum_at(&|heartbeat| heartbeat.silent_at(limits, outages));
        // Last call applies once enough candidates are silent and a deadline still ahead is close.
        let last_call_at = candidates(tracker, limits, context.now)
            .map(|heartbeat| {
                heartbeat
                    .renewal()
                    .max(context.released)
                    .plus(limits.grace())
            })
            .filter(|deadline| *deadline > silent_at.max(context.now))
            .map(|deadline| deadline.before(context.reserve).max(silent_at))
            .min()
            .filter(|_| !context.reserve.is_zero());
        tracker.scratch = scratch;
        let trip = last_call_at.map_or(expired_at, |last_call| last_call.min(expired_at));
        (trip <= context.horizon).then_some(trip)
    }
}

/// Returns the first deadline of the current silence: that of the oldest renewal among the
/// candidates that fell silent together. A node that died long before has no part in it.
pub(crate) fn first_deadline(
    tracker: &mut LeaseTracker,
    limits: &GraceLimits,
    context: &CountContext,
    settings: &ProbeSettings,
) -> Option<Time> {
    let mut scratch = std::mem::take(&mut tracker.scratch);
    scratch.clear();
    scratch.extend(candidates(tracker, limits, context.now).map(Heartbeat::renewal));
    let count = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
    let quorum = settings.failure_fraction.quorum(count) as usize;
    let first = quorum.checked_sub(1).and_then(|last| {
        let (_, together, _) = scratch.select_nth_unstable(last);
        // Kubelets renew at different instants of their period.
        let earliest = together.plus(-limits.half());
        scratch
            .iter()
            .copied()
            .filter(|renewal| *renewal >= earliest)
            .min()
    });
    tracker.scratch = scratch;
    first.map(|renewal| renewal.max(context.released).plus(limits.grace()))
}

/// Returns whether enough candidates are late with a renewal at `now`, as of the last list.
pub(crate) fn is_quorum_late(
    tracker: &LeaseTracker,
    limits: &GraceLimits,
    now: Time,
    settings: &ProbeSettings,
) -> bool {
    let (late, all) = count_late(tracker, limits, now);
    settings.failure_fraction.is_reached(late, all)
}

/// Returns the number of candidates that are late with a renewal at `now`, and of all candidates.
fn count_late(tracker: &LeaseTracker, limits: &GraceLimits, now: Time) -> (u32, u32) {
    let (mut late, mut all) = (0, 0);
    for heartbeat in candidates(tracker, limits, now) {
        all += 1;
        late += u32::from(heartbeat.late_at(limits) < now);
    }
    (late, all)
}

/// Returns whether candidates may be falling silent together: enough of them are late, and there
/// are enough of them to tell.
pub(crate) fn is_group_late(
    tracker: &LeaseTracker,
    limits: &GraceLimits,
    now: Time,
    settings: &ProbeSettings,
) -> bool {
    let (late, all) = count_late(tracker, limits, now);
    all >= settings.min_candidates && settings.failure_fraction.is_reached(late, all)
}

fn candidates<'a>(
    tracker: &'a LeaseTracker,
    limits: &'a GraceLimits,
    now: Time,
) -> impl Iterator<Item = &'a Heartbeat> {
    let counts = move |entry: &&TrackedLease| {
        matches!(entry.role, LeaseRole::Candidate | LeaseRole::Unknown)
            && !is_too_young(&entry.heartbeat, entry.created, now, limits)
    };
    tracker
        .entries()
        .iter()
        .filter(counts)
        .map(|entry| &entry.heartbeat)
}

/// Returns whether the lease was never renewed and its node is not older than the grace period.
/// Such a lease does not count.
fn is_too_young(heartbeat: &Heartbeat, created: Time, now: Time, limits: &GraceLimits) -> bool {
    !heartbeat.was_ever_renewed() && now <= created.plus(limits.grace())
}
