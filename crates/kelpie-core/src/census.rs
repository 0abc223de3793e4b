//! Counting the leases of a cluster at one instant, and when that count would trip.

use serde::Serialize;

use crate::book::{Entry, LeaseBook, Role};
use crate::candidate::{Exclusion, Exclusions};
use crate::lease::Heartbeat;
use crate::limits::Limits;
use crate::{Settings, Time};

/// The cluster's leases at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Census {
    /// Nodes whose leases count.
    pub candidates: u32,
    /// Candidates whose lease is expired.
    pub expired: u32,
    /// Candidates that have been silent for half the grace period or longer.
    pub silent: u32,
    /// Candidates whose lease proves nothing yet, after our start or a gap between lists.
    pub unproven: u32,
    /// Candidates that have not renewed since the trip, if there was one.
    pub not_renewed: Option<u32>,
    /// Nodes with a lease, candidates or not.
    pub nodes: u32,
    /// Of those, the ones that have not renewed since the trip, if there was one.
    pub nodes_not_renewed: Option<u32>,
    /// Nodes that do not count, by cause.
    pub excluded: Exclusions,
    /// The earliest instant still ahead at which a candidate may turn Unknown.
    pub deadline: Option<Time>,
    /// The earliest instant still ahead, if before the horizon, at which a lease expires for which
    /// nodes should be read.
    #[serde(skip)]
    pub(crate) first_expiry: Option<Time>,
    /// Candidates that will be expired or silent by the horizon if nobody renews.
    #[serde(skip)]
    ripe: u32,
}

/// The instants a census is taken against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    /// Start of the list.
    pub(crate) now: Time,
    /// When the cluster tripped.
    pub(crate) tripped: Option<Time>,
    /// When the last release was acknowledged; [`Time::MIN`] for never.
    pub(crate) released: Time,
    /// The trip instant matters only if it comes before this.
    pub(crate) horizon: Time,
}

/// Why the lease probe tripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TripCause {
    /// Enough candidates are expired.
    Expired,
    /// The deadline is close, and enough candidates are silent.
    LastCall,
}

impl Census {
    pub(crate) fn take(book: &LeaseBook, limits: &Limits, epoch: &Epoch) -> Self {
        let Epoch {
            now,
            tripped,
            released,
            horizon,
        } = *epoch;
        let worth_reading_nodes = book.roster_read_at().plus(limits.quarter());
        let mut census = Self {
            excluded: book.exclusions(),
            ..Self::default()
        };
        // Deadlines are compared as the renewals they follow from: the same order, less arithmetic.
        let missed_before = now.plus(-limits.grace());
        let fresh_after = horizon.plus(-limits.half());
        let (mut oldest, mut first_expiry) = (Time::MAX, Time::MAX);
        let (mut not_renewed, mut nodes_not_renewed) = (0, 0);
        for entry in book.entries() {
            let heartbeat = &entry.heartbeat;
            if !matches!(entry.role, Role::Candidate | Role::Excluded) {
                continue;
            }
            let renewed = tripped.is_some_and(|trip| heartbeat.renewed_since(trip, now, limits));
            census.nodes += 1;
            nodes_not_renewed += u32::from(!renewed);
            if entry.role == Role::Excluded {
                continue;
            }
            if is_newborn(heartbeat, entry.created, now, limits) {
                census.excluded.add(Exclusion::NeverRenewed);
                continue;
            }
            census.candidates += 1;
            not_renewed += u32::from(!renewed);
            census.unproven += u32::from(heartbeat.is_unproven(now, limits));
            let alive_at = heartbeat.renewal().max(released);
            if alive_at > missed_before {
                oldest = oldest.min(alive_at);
            }
            if heartbeat.renewal() > fresh_after {
                continue; // neither silent nor expired by the horizon: nearly all, when healthy
            }
            let expires_at = heartbeat.expires_at(limits);
            let silent_at = heartbeat.silent_at(limits);
            census.expired += u32::from(expires_at <= now);
            census.silent += u32::from(silent_at <= now);
            census.ripe += u32::from(expires_at.min(silent_at) <= horizon);
            if expires_at > now && expires_at > worth_reading_nodes {
                first_expiry = first_expiry.min(expires_at);
            }
        }
        census.not_renewed = tripped.map(|_| not_renewed);
        census.nodes_not_renewed = tripped.map(|_| nodes_not_renewed);
        let known = |instant: Time| (instant < Time::MAX).then_some(instant);
        census.deadline = known(oldest).map(|alive_at| alive_at.plus(limits.grace()));
        census.first_expiry = known(first_expiry);
        census
    }

    /// Whether the count trips now.
    pub(crate) fn trips(&self, now: Time, settings: &Settings) -> Option<TripCause> {
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

    /// T: the earliest instant after now at which the count would trip if nobody renewed; `None` if
    /// that is never, or not before the horizon.
    pub(crate) fn trip_instant(
        &self,
        book: &mut LeaseBook,
        limits: &Limits,
        epoch: &Epoch,
        settings: &Settings,
    ) -> Option<Time> {
        let quorum = settings.failure_fraction.quorum(self.candidates);
        if quorum == 0 || self.ripe < quorum {
            return None;
        }
        let mut scratch = std::mem::take(&mut book.scratch);
        let mut quorum_at = |instant: &dyn Fn(&Heartbeat) -> Time| {
            scratch.clear();
            scratch.extend(candidates(book, limits, epoch.now).map(instant));
            let (_, nth, _) = scratch.select_nth_unstable(quorum as usize - 1);
            *nth
        };
        let expired_at = quorum_at(&|heartbeat| heartbeat.expires_at(limits));
        let silent_at = quorum_at(&|heartbeat| heartbeat.silent_at(limits));
        // Last call comes true once enough are silent and some deadline, still ahead, is close.
        let last_call_at = candidates(book, limits, epoch.now)
            .map(|heartbeat| heartbeat.renewal().max(epoch.released).plus(limits.grace()))
            .filter(|deadline| *deadline > silent_at.max(epoch.now))
            .map(|deadline| deadline.before(settings.fence_reserve).max(silent_at))
            .min()
            .filter(|_| !settings.fence_reserve.is_zero());
        book.scratch = scratch;
        let trip = last_call_at.map_or(expired_at, |last_call| last_call.min(expired_at));
        (trip <= epoch.horizon).then_some(trip)
    }
}

fn candidates<'a>(
    book: &'a LeaseBook,
    limits: &'a Limits,
    now: Time,
) -> impl Iterator<Item = &'a Heartbeat> {
    let counts = move |entry: &&Entry| {
        entry.role == Role::Candidate && !is_newborn(&entry.heartbeat, entry.created, now, limits)
    };
    book.entries()
        .iter()
        .filter(counts)
        .map(|entry| &entry.heartbeat)
}

/// A lease without a `renewTime` counts only once its node is older than the grace period.
fn is_newborn(heartbeat: &Heartbeat, created: Time, now: Time, limits: &Limits) -> bool {
    !heartbeat.was_ever_renewed() && now <= created.plus(limits.grace())
}
