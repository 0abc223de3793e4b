//! The rules of leader election, without IO: time and responses in, the next call out.
//!
//! They are client-go's, and do not depend on wall clocks. A lease expires when it has not been
//! *seen* to change for its duration, by the local monotonic clock. Its holder stops acting well
//! before that.
//!
//! Calls may overlap: an API server that takes seconds for a response must not cost the leadership.
//! The right to act counts from the instant at which a successful write was sent. Other replicas
//! see the write later than that, whenever the response arrives.

use std::collections::VecDeque;
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
/// A replica that is not ready takes a lease that was free for this long: better one that has to
/// learn about its clusters than none.
const FREE_PATIENCE: Duration = Duration::from_secs(5);
/// The number of calls that may wait for a response within the renew deadline.
const OVERLAPPING_CALLS: u32 = 4;
/// The number of writes that are remembered until their fate is known.
const REMEMBERED_WRITES: usize = 8;

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
    /// False while another replica should rather have the lease than this one.
    stands: bool,
    /// The instant since which the lease is seen to be free.
    free_since: Option<Instant>,
    /// The instant at which the newest call was sent, until a response decides what comes next.
    waiting_since: Option<Instant>,
    /// The instant at which the call was sent whose response is the newest one taken in.
    asked: Instant,
    /// The last writes and the instants at which they were sent, oldest first.
    writes: VecDeque<(LeaseRecord, Instant)>,
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
            stands: true,
            free_since: None,
            waiting_since: None,
            asked: now,
            writes: VecDeque::new(),
        }
    }

    /// Sets whether this replica stands for election. One that does not takes only a lease that has
    /// been free for 5 s. A leader stays leader.
    pub(crate) fn stand(&mut self, stands: bool) {
        self.stands = stands;
    }

    pub(crate) fn leadership(&self, now: Instant) -> Leadership {
        match self.until {
            Some(until) if now < until => Leadership::Leader { until },
            _ => Leadership::Standby,
        }
    }

    /// Returns the next action. `stamp` is written into the lease for its readers.
    pub(crate) fn next(&self, now: Instant, stamp: Timestamp) -> ElectionAction {
        let due = match self.waiting_since {
            Some(since) => since + self.call_limit() / OVERLAPPING_CALLS,
            None => self.next_at,
        };
        if now < due {
            return ElectionAction::Wait(due);
        }
        match &self.knowledge {
            LeaseKnowledge::Missing if self.may_stand(now) => {
                ElectionAction::Create(self.claim(None, stamp))
            }
            LeaseKnowledge::Seen(seen) if self.may_take(&seen.record, now) => {
                ElectionAction::Update(SeenLease {
                    record: self.claim(Some(&seen.record), stamp),
                    version: seen.version.clone(),
                })
            }
            LeaseKnowledge::Unread | LeaseKnowledge::Missing | LeaseKnowledge::Seen(_) => {
                ElectionAction::Read
            }
        }
    }

    /// Takes in that a call was sent.
    pub(crate) fn sent(&mut self, action: &ElectionAction, now: Instant) {
        self.waiting_since = Some(now);
        let (ElectionAction::Create(record) | ElectionAction::Update(SeenLease { record, .. })) =
            action
        else {
            return;
        };
        if self.writes.len() == REMEMBERED_WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back((record.clone(), now));
    }

    /// Takes in the result of a read that was sent at `start`. `jitter` lies between 0 and 1.
    /// Returns whether it is the newest response.
    pub(crate) fn observe(
        &mut self,
        seen: Option<SeenLease>,
        start: Instant,
        now: Instant,
        jitter: f64,
    ) -> bool {
        if start < self.asked {
            return false;
        }
        self.asked = start;
        self.waiting_since = None;
        let mut is_own = false;
        let is_free = match &seen {
            None => {
                self.changed = None;
                true
            }
            Some(seen) => {
                self.note(&seen.record, now);
                is_own = seen.record.holder == self.settings.identity;
                !is_own && self.is_free(&seen.record, now)
            }
        };
        self.free_since = is_free.then(|| self.free_since.unwrap_or(now));
        if !is_own {
            self.until = None;
            // A stale read that shows one of them later must not revive the leadership.
            self.writes.clear();
        }
        // A write without a response was successful if its record is found.
        let mut writes = self.writes.iter();
        let write = seen
            .as_ref()
            .and_then(|seen| writes.find(|(record, _)| *record == seen.record));
        if let Some(sent) = write.map(|(_, sent)| *sent) {
            self.extend(sent);
        }
        self.knowledge = seen.map_or(LeaseKnowledge::Missing, LeaseKnowledge::Seen);
        self.next_at = if is_own || is_free && self.may_stand(now) {
            now
        } else {
            now + spread(self.settings.retry_period.min(READ_INTERVAL), jitter)
        };
        true
    }

    /// Takes in a successful create or update that was sent at `start`. Returns whether it is the
    /// newest response.
    pub(crate) fn wrote(&mut self, seen: SeenLease, start: Instant, now: Instant) -> bool {
        let is_newest = start >= self.asked;
        // A newer response that shows another holder, or none, is not revised by an older one.
        if is_newest || self.holds() {
            self.extend(start);
        }
        if is_newest {
            self.note(&seen.record, now);
            self.asked = start;
            self.waiting_since = None;
            self.free_since = None;
            self.next_at = start + self.settings.retry_period;
            self.had_conflict = false;
            self.knowledge = LeaseKnowledge::Seen(seen);
        }
        is_newest
    }

    /// Takes in a conflict of a write with this version, or of a create: another replica was
    /// faster, or an earlier write of this one succeeded without a response. The next read shows
    /// which. If that write conflicts as well, reads lag behind, and repeating them at once would
    /// be a busy loop.
    pub(crate) fn conflicted(&mut self, version: Option<&str>, now: Instant) {
        let is_superseded = match (&self.knowledge, version) {
            (LeaseKnowledge::Seen(seen), Some(version)) => seen.version != version,
            (LeaseKnowledge::Missing, None) => false,
            _ => true,
        };
        if is_superseded {
            return;
        }
        self.waiting_since = None;
        self.knowledge = LeaseKnowledge::Unread;
        self.next_at = if self.had_conflict {
            now + self.settings.retry_period.min(READ_INTERVAL)
        } else {
            now
        };
        self.had_conflict = true;
    }

    /// Takes in the failure of the call that was sent at `start`. A write is repeated as it was: if
    /// it did have its effect, the repetition is a conflict. `jitter` lies between 0 and 1.
    pub(crate) fn failed(&mut self, start: Instant, now: Instant, jitter: f64) {
        if self.waiting_since != Some(start) {
            return;
        }
        self.waiting_since = None;
        let pause = match self.leadership(now) {
            Leadership::Leader { .. } => self.settings.retry_period.min(READ_INTERVAL),
            Leadership::Standby => spread(self.settings.retry_period, jitter),
        };
        // A call that timed out has paused for long enough.
        self.next_at = now.max(start + pause);
    }

    /// Returns the time limit of a call. A write that takes longer gives no right to act.
    pub(crate) fn call_limit(&self) -> Duration {
        self.settings.renew_deadline
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

    /// Moves the end of the leadership forward, by a write that was sent at `start`.
    fn extend(&mut self, start: Instant) {
        let until = start + self.settings.renew_deadline;
        self.until = Some(self.until.map_or(until, |before| before.max(until)));
    }

    fn holds(&self) -> bool {
        matches!(&self.knowledge, LeaseKnowledge::Seen(seen)
            if seen.record.holder == self.settings.identity)
    }

    fn may_stand(&self, now: Instant) -> bool {
        let is_free_for_long = |since| now >= since + FREE_PATIENCE;
        self.stands || self.free_since.is_some_and(is_free_for_long)
    }

    fn may_take(&self, record: &LeaseRecord, now: Instant) -> bool {
        record.holder == self.settings.identity || self.is_free(record, now) && self.may_stand(now)
    }

    fn is_free(&self, record: &LeaseRecord, now: Instant) -> bool {
        record.holder.is_empty() || self.expires_at(record).is_some_and(|at| now >= at)
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
