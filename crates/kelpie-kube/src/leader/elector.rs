//! The rules of leader election, without the calls: time and answers in, the next call out.
//!
//! They are client-go's: nobody's wall clock counts. A lease runs out when it has not been *seen* to
//! change for its duration, on our own monotonic clock; whoever holds it stops acting well before
//! that.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{ElectionSettings, Leadership};

/// A free lease is looked for so often, whatever the retry period: a released one must find its next
/// holder within a second.
const LOOK: Duration = Duration::from_millis(300);
/// Standbys look at random moments, up to this much later, so that they do not look together.
const JITTER: f64 = 0.5;
/// What client-go leaves in a lease that it gives up.
const RELEASED: Duration = Duration::from_secs(1);

/// What a lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Who holds it; empty: nobody.
    pub(crate) holder: String,
    /// How long it lasts from its last renewal.
    pub(crate) duration: Duration,
    /// How often it has changed hands.
    pub(crate) transitions: i32,
    /// When its holder got it, by the holder's clock.
    pub(crate) acquired: Option<Timestamp>,
    /// When it was last renewed, by the holder's clock.
    pub(crate) renewed: Option<Timestamp>,
}

/// A record and the version of the object it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    pub(crate) version: String,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing before this.
    Wait(Instant),
    /// Read the lease.
    Read,
    /// Create it.
    Create(Record),
    /// Replace it, resting on what was seen.
    Update(Seen),
}

/// What is known of the lease.
#[derive(Debug, Clone)]
enum Knowledge {
    /// Nothing that a write could rest on.
    Unread,
    /// There is none.
    Missing,
    /// This.
    Seen(Seen),
}

/// One candidate.
#[derive(Debug)]
pub(crate) struct Elector {
    settings: ElectionSettings,
    knowledge: Knowledge,
    /// The last record that differed from the one before, and when it was seen first.
    changed: Option<(Record, Instant)>,
    /// Until when we may act.
    until: Option<Instant>,
    /// The last write conflicted.
    is_contested: bool,
    next_at: Instant,
}

impl Elector {
    pub(crate) fn new(settings: ElectionSettings, now: Instant) -> Self {
        Self {
            settings,
            knowledge: Knowledge::Unread,
            changed: None,
            until: None,
            is_contested: false,
            next_at: now,
        }
    }

    pub(crate) fn leadership(&self, now: Instant) -> Leadership {
        match self.until {
            Some(until) if now < until => Leadership::Leader { until },
            _ => Leadership::Standby,
        }
    }

    /// What to do now. `stamp` is for the readers of the lease.
    pub(crate) fn next(&self, now: Instant, stamp: Timestamp) -> Act {
        if now < self.next_at {
            return Act::Wait(self.next_at);
        }
        match &self.knowledge {
            Knowledge::Missing => Act::Create(self.claim(None, stamp)),
            Knowledge::Seen(seen) if self.may_take(&seen.record, now) => Act::Update(Seen {
                record: self.claim(Some(&seen.record), stamp),
                version: seen.version.clone(),
            }),
            Knowledge::Unread | Knowledge::Seen(_) => Act::Read,
        }
    }

    /// A read is done. `jitter` is between 0 and 1.
    pub(crate) fn observe(&mut self, seen: Option<Seen>, now: Instant, jitter: f64) {
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
        if !self.is_ours(seen.as_ref()) {
            self.until = None;
        }
        self.knowledge = seen.map_or(Knowledge::Missing, Knowledge::Seen);
        self.next_at = if is_free {
            now
        } else {
            self.look_after(now, jitter)
        };
    }

    /// A create or update that was begun at `start` went through.
    pub(crate) fn wrote(&mut self, seen: Seen, start: Instant, now: Instant) {
        self.note(&seen.record, now);
        self.until = Some(start + self.settings.renew_deadline);
        self.next_at = start + self.settings.retry_period;
        self.is_contested = false;
        self.knowledge = Knowledge::Seen(seen);
    }

    /// A write rested on something old: somebody else was faster, or an earlier write of ours went
    /// through unheard. What is read then is new, or it conflicts again: then reads lag behind, and asking
    /// at once would be asking without end.
    pub(crate) fn conflicted(&mut self, now: Instant) {
        self.knowledge = Knowledge::Unread;
        self.next_at = if self.is_contested {
            now + self.settings.retry_period.min(LOOK)
        } else {
            now
        };
        self.is_contested = true;
    }

    /// A call failed, or its answer did not come. `jitter` is between 0 and 1.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64) {
        self.knowledge = Knowledge::Unread;
        self.next_at = match self.leadership(now) {
            Leadership::Leader { .. } => now + self.settings.retry_period.min(LOOK),
            Leadership::Standby => now + spread(self.settings.retry_period, jitter),
        };
    }

    /// How long the next call may take: never past the moment at which we stop acting, so that this
    /// is noticed in time, and short enough for a second try before it.
    pub(crate) fn patience(&self, now: Instant) -> Duration {
        let half = self.settings.renew_deadline / 2;
        match self.leadership(now) {
            Leadership::Leader { until } => half.min(until - now),
            Leadership::Standby => half,
        }
    }

    /// Gives the lease up: nothing may be done under it any more, and this is what to write if it is
    /// ours as far as we know.
    pub(crate) fn release(&mut self, stamp: Timestamp) -> Option<Seen> {
        self.until = None;
        let Knowledge::Seen(seen) = &self.knowledge else {
            return None;
        };
        (seen.record.holder == self.settings.identity).then(|| Seen {
            record: Record {
                holder: String::new(),
                duration: RELEASED,
                transitions: seen.record.transitions,
                acquired: Some(stamp),
                renewed: Some(stamp),
            },
            version: seen.version.clone(),
        })
    }

    fn is_ours(&self, seen: Option<&Seen>) -> bool {
        seen.is_some_and(|seen| seen.record.holder == self.settings.identity)
    }

    fn note(&mut self, record: &Record, now: Instant) {
        if self.changed.as_ref().is_none_or(|(last, _)| last != record) {
            self.changed = Some((record.clone(), now));
        }
    }

    fn may_take(&self, record: &Record, now: Instant) -> bool {
        record.holder.is_empty()
            || record.holder == self.settings.identity
            || self.expires_at(record).is_some_and(|at| now >= at)
    }

    fn expires_at(&self, record: &Record) -> Option<Instant> {
        let (last, since) = self.changed.as_ref()?;
        let duration = if record.duration.is_zero() {
            self.settings.lease_duration // somebody who does not say gets what we would
        } else {
            record.duration
        };
        (last == record).then(|| *since + duration)
    }

    /// What we would write.
    fn claim(&self, before: Option<&Record>, stamp: Timestamp) -> Record {
        let own = before.filter(|record| record.holder == self.settings.identity);
        Record {
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

    /// The next look of a standby.
    fn look_after(&self, now: Instant, jitter: f64) -> Instant {
        now + spread(self.settings.retry_period.min(LOOK), jitter)
    }
}

fn spread(period: Duration, jitter: f64) -> Duration {
    period + period.mul_f64(JITTER * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
