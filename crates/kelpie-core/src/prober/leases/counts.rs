//! The leases of a cluster counted at one instant, and the instant at which they would trip.

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
            if !matches!(entry.role, LeaseRole::Candidate | LeaseRole::Excluded) {
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
            let silent_at = heartbeat.silent_at(limits);
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

    /// Returns the cause if the counts trip the lease probe now.
    pub(crate) fn trips(&self, now: Time, settings: &ProbeSettings) -> Option<TripCause> {
        if settings
            .failure_fraction
            .is_reached(self.expired, self.candidates)
        {
            return Some(TripCause::Expired);
        }
        let is_close = |deadline: Time| deadline <= now.after(settings.fence_reserve);
        let last_call = !settings.fence_reserve.is_zero()
            && self.deadline.is_some_and(is_close)
            && settings
                .failure_fraction
                .is_reached(self.silent, self.candidates);
        last_call.then_some(TripCause::LastCall)
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
        let silent_at = quorum_at(&|heartbeat| heartbeat.silent_at(limits));
        // Last call applies once enough candidates are silent and a deadline still ahead is close.
        let last_call_at = candidates(tracker, limits, context.now)
            .map(|heartbeat| {
                heartbeat
                    .renewal()
                    .max(context.released)
                    .plus(limits.grace())
            })
            .filter(|deadline| *deadline > silent_at.max(context.now))
            .map(|deadline| deadline.before(settings.fence_reserve).max(silent_at))
            .min()
            .filter(|_| !settings.fence_reserve.is_zero());
        tracker.scratch = scratch;
        let trip = last_call_at.map_or(expired_at, |last_call| last_call.min(expired_at));
        (trip <= context.horizon).then_some(trip)
    }
}

fn candidates<'a>(
    tracker: &'a LeaseTracker,
    limits: &'a GraceLimits,
    now: Time,
) -> impl Iterator<Item = &'a Heartbeat> {
    let counts = move |entry: &&TrackedLease| {
        entry.role == LeaseRole::Candidate
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
