//! The rules of leader election, without IO: time and responses in, the next call out.
//!
//! They are client-go's, and do not depend on wall clocks. A lease expires when it has not been
//! *seen* to change for its duration, by the local monotonic clock. Its holder stops acting well
//! before that.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{ElectionSettings, Leadership};

/// Standbys read the lease at least this often, whatever the retry period, so that a released lease
/// finds its next holder within a second.
const READ_INTERVAL: Duration = Duration::from_millis(300);
/// Standbys read up to this much later, at random, so that they do not read at the same time.
const JITTER: f64 = 0.5;
/// The duration that client-go leaves in a released lease.
const RELEASED: Duration = Duration::from_secs(1);

/// The content of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// The identity of the holder; empty if the lease is free.
    pub(crate) holder: String,
    /// The time for which it is valid after a renewal.
    pub(crate) duration: Duration,
    /// The number of times that the holder changed.
    pub(crate) transitions: i32,
    /// The instant at which the holder acquired it, by the holder's clock.
    pub(crate) acquired: Option<Timestamp>,
    /// The instant of the last renewal, by the holder's clock.
    pub(crate) renewed: Option<Timestamp>,
}

/// A record and the version of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenLease {
    pub(crate) record: LeaseRecord,
    pub(crate) version: String,
}

/// The next action of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ElectionAction {
    /// Wait until this instant.
    Wait(Instant),
    /// Read the lease from the API server.
    Read,
    /// Create the lease with this record.
    Create(LeaseRecord),
    /// Replace the lease, if it still has this version.
    Update(SeenLease),
}

/// The elector's last view of the lease.
#[derive(Debug, Clone)]
enum LeaseKnowledge {
    /// It has to be read before the next write.
    Unread,
    /// It does not exist.
    Missing,
    /// It was read or written.
    Seen(SeenLease),
}

/// One candidate of an election.
#[derive(Debug)]
pub(crate) struct Elector {
    settings: ElectionSettings,
    knowledge: LeaseKnowledge,
    /// The last record that differed from the one before, and the instant at which it was first
    /// seen.
    changed: Option<(LeaseRecord, Instant)>,
    /// The end of the leadership.
    until: Option<Instant>,
    /// The last write ended in a conflict.
    had_conflict: bool,
    next_at: Instant,
}

impl Elector {
    pub(crate) fn new(settings: ElectionSettings, now: Instant) -> Self {
        Self {
            settings,
            knowledge: LeaseKnowledge::Unread,
            changed: None,
            until: None,
            had_conflict: false,
            next_at: now,
        }
    }

    pub(crate) fn leadership(&self, now: Instant) -> Leadership {
        match self.until {
            Some(until) if now < until => Leadership::Leader { until },
            _ => Leadership::Standby,
        }
    }

    /// Returns the next action. `stamp` is written into the lease for its readers.
    pub(crate) fn next(&self, now: Instant, stamp: Timestamp) -> ElectionAction {
        if now < self.next_at {
            return ElectionAction::Wait(self.next_at);
        }
        match &self.knowledge {
            LeaseKnowledge::Missing => ElectionAction::Create(self.claim(None, stamp)),
            LeaseKnowledge::Seen(seen) if self.may_take(&seen.record, now) => {
                ElectionAction::Update(SeenLease {
                    record: self.claim(Some(&seen.record), stamp),
                    version: seen.version.clone(),
                })
            }
            LeaseKnowledge::Unread | LeaseKnowledge::Seen(_) => ElectionAction::Read,
        }
    }

    /// Takes in the result of a read. `jitter` lies between 0 and 1.
    pub(crate) fn observe(&mut self, seen: Option<SeenLease>, now: Instant, jitter: f64) {
        let is_free = match &seen {
            None => {
                self.changed = None;
                true
            }
            Some(seen) => {
                self.note(&seen.record, now);
                self.may_take(&seen.record, now)
            }
        };
        let identity = &self.settings.identity;
        if seen
            .as_ref()
            .is_none_or(|seen| seen.record.holder != *identity)
        {
            self.until = None;
        }
        self.knowledge = seen.map_or(LeaseKnowledge::Missing, LeaseKnowledge::Seen);
        self.next_at = if is_free {
            now
        } else {
            now + spread(self.settings.retry_period.min(READ_INTERVAL), jitter)
        };
    }

    /// Takes in a successful create or update that was sent at `start`.
    pub(crate) fn wrote(&mut self, seen: SeenLease, start: Instant, now: Instant) {
        self.note(&seen.record, now);
        self.until = Some(start + self.settings.renew_deadline);
        self.next_at = start + self.settings.retry_period;
        self.had_conflict = false;
        self.knowledge = LeaseKnowledge::Seen(seen);
    }

    /// Takes in a conflict: another replica was faster, or an earlier write of this one succeeded
    /// without a response. The next read shows which. If that write conflicts as well, reads lag
    /// behind, and repeating them at once would be a busy loop.
    pub(crate) fn conflicted(&mut self, now: Instant) {
        self.knowledge = LeaseKnowledge::Unread;
        self.next_at = if self.had_conflict {
            now + self.settings.retry_period.min(READ_INTERVAL)
        } else {
            now
        };
        self.had_conflict = true;
    }

    /// Takes in a failed call. `jitter` lies between 0 and 1.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64) {
        self.knowledge = LeaseKnowledge::Unread;
        self.next_at = match self.leadership(now) {
            Leadership::Leader { .. } => now + self.settings.retry_period.min(READ_INTERVAL),
            Leadership::Standby => now + spread(self.settings.retry_period, jitter),
        };
    }

    /// Returns the time limit of the next call. It ends with the leadership, so that its end is
    /// noticed in time, and leaves time for a second attempt.
    pub(crate) fn call_timeout(&self, now: Instant) -> Duration {
        let half = self.settings.renew_deadline / 2;
        match self.leadership(now) {
            Leadership::Leader { until } => half.min(until - now),
            Leadership::Standby => half,
        }
    }

    /// Ends the leadership and returns the released lease to write, if this replica holds it.
    pub(crate) fn release(&mut self, stamp: Timestamp) -> Option<SeenLease> {
        self.until = None;
        let LeaseKnowledge::Seen(seen) = &self.knowledge else {
            return None;
        };
        (seen.record.holder == self.settings.identity).then(|| SeenLease {
            record: LeaseRecord {
                holder: String::new(),
                duration: RELEASED,
                transitions: seen.record.transitions,
                acquired: Some(stamp),
                renewed: Some(stamp),
            },
            version: seen.version.clone(),
        })
    }

    fn note(&mut self, record: &LeaseRecord, now: Instant) {
        if self.changed.as_ref().is_none_or(|(last, _)| last != record) {
            self.changed = Some((record.clone(), now));
        }
    }

    fn may_take(&self, record: &LeaseRecord, now: Instant) -> bool {
        record.holder.is_empty()
            || record.holder == self.settings.identity
            || self.expires_at(record).is_some_and(|at| now >= at)
    }

    fn expires_at(&self, record: &LeaseRecord) -> Option<Instant> {
        let (last, since) = self.changed.as_ref()?;
        let duration = if record.duration.is_zero() {
            self.settings.lease_duration // the default for a holder that sets none
        } else {
            record.duration
        };
        (last == record).then(|| *since + duration)
    }

    /// Returns the record by which this replica acquires or renews the lease.
    fn claim(&self, before: Option<&LeaseRecord>, stamp: Timestamp) -> LeaseRecord {
        let own = before.filter(|record| record.holder == self.settings.identity);
        LeaseRecord {
            holder: self.settings.identity.clone(),
            duration: self.settings.lease_duration,
            transitions: match (own, before) {
                (Some(own), _) => own.transitions,
                (None, Some(before)) => before.transitions.saturating_add(1),
                (None, None) => 0,
            },
            acquired: own.map_or(Some(stamp), |own| own.acquired),
            renewed: Some(stamp),
        }
    }
}

fn spread(period: Duration, jitter: f64) -> Duration {
    period + period.mul_f64(JITTER * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
