//! The last known state of a target, and the schedule of its refreshes.

use std::cmp::Ordering;
use std::time::Duration;

use super::direction::{Direction, fenced_setting, goal};
use super::kept_record::{DropRecord, KeptRecord, MoveRecord};
use super::step::{Call, DropMarker, Marked, Reply, WriteAnswer};
use super::target_object::{Observed, ResourceVersion, TargetObject};
use crate::Time;
use crate::prober::Target;
use crate::time::micros;

/// Targets are read at least this often, to find changes by others. All clusters read at the same
/// instants, so that one list can serve them all.
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// While a fence is wanted, targets without a watch are read this often. A controller that is
/// started against the fence must be stopped before it turns a node Unknown, which takes it the
/// whole grace period.
const FENCED_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// A failed read is repeated after this.
const RETRY: Duration = Duration::from_secs(1);
/// Reads that keep failing are repeated ever more slowly, up to [`REFRESH_INTERVAL`].
const MOST_DOUBLINGS: u32 = 9;
/// The longest time between two reads of a target with a write of unknown fate.
const DOUBT_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two tries of a write that an admission webhook prevents.
const WEBHOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The last known state of a target, and the schedule of its refreshes.
#[derive(Debug)]
pub(super) struct TargetView {
    /// The target with the record that is kept for it.
    pub(super) observed: Option<Observed>,
    /// The target as it was read or written.
    learned: Option<Observed>,
    /// The record on the leader Lease, as far as is known.
    kept: Option<KeptRecord>,
    /// A watch keeps the state up to date.
    pub(super) is_watched: bool,
    /// A write that may still happen.
    doubt: Option<WriteDoubt>,
    /// The instant at which another client was seen to have changed the target against the wanted
    /// direction. The next decision that is newer than that is carried out.
    pub(super) contradicted_at: Option<Time>,
    /// The instant at which the marker was first seen on the target.
    pub(super) marked_since: Option<Time>,
    /// The instant of the fence whose pods have not stopped yet.
    pub(super) stopping_since: Option<Time>,
    read_at: Time,
    /// The instant of the next refresh.
    refresh_at: Time,
    /// The number of consecutive failed refreshes.
    failures: u32,
    /// The refresh under way. It is outdated by anything newer that is learned about the target.
    pub(super) refresh: Option<u64>,
    /// An admission webhook keeps the marker of a restored target from being dropped.
    is_marker_stuck: bool,
    /// The write under way that belongs to no flow.
    pub(super) upkeep: Option<u64>,
    /// The instants from which such a write may be sent: to the leader Lease, and to the target.
    drop_record_at: Time,
    webhook_at: Time,
}

/// A write without an answer, or whose answer does not tell whether it happened. It rests on a
/// version, so it cannot happen any more once the target has another one.
#[derive(Debug)]
struct WriteDoubt {
    version: ResourceVersion,
    /// The flow that sent the write.
    flow: u64,
    /// The end of the doubt: the write was lost.
    until: Time,
    /// The call has failed, or there are several: an answer to one does not end the doubt.
    is_open: bool,
    /// The target was not read since.
    is_unread: bool,
    /// The number of reads that still showed the old version.
    looks: u32,
}

impl Default for TargetView {
    fn default() -> Self {
        Self {
            observed: None,
            learned: None,
            kept: None,
            is_watched: false,
            doubt: None,
            contradicted_at: None,
            marked_since: None,
            stopping_since: None,
            read_at: Time::MIN,
            refresh_at: Time::MIN,
            failures: 0,
            refresh: None,
            is_marker_stuck: false,
            upkeep: None,
            drop_record_at: Time::MIN,
            webhook_at: Time::MIN,
        }
    }
}

impl TargetView {
    pub(super) fn present(&self) -> Option<&TargetObject> {
        match &self.observed {
            Some(Observed::Present(object)) => Some(object),
            Some(Observed::Missing) | None => None,
        }
    }

    /// Discards what was read. What is known of the Lease stays.
    pub(super) fn invalidate(&mut self) {
        *self = Self {
            kept: self.kept.take(),
            ..Self::default()
        };
    }

    /// Takes in the record on the leader Lease.
    pub(super) fn set_kept(&mut self, kept: Option<KeptRecord>, now: Time) {
        if self.kept != kept {
            self.webhook_at = now.after(WEBHOOK_INTERVAL);
            self.kept = kept;
            self.add_kept();
        }
    }

    fn add_kept(&mut self) {
        self.observed = self.learned.clone();
        if let (Some(Observed::Present(object)), Some(kept)) = (&mut self.observed, &self.kept) {
            kept.overlay(object);
        }
    }

    /// Returns whether a watchdog has marked the target, and a flow has to restore or unmark it.
    pub(super) fn is_marked(&self, target: &Target) -> bool {
        self.present().is_some_and(|object| {
            let is_restored = goal(Direction::Up, target, object).is_none();
            // Remains of a fence are removed beside the flows.
            let is_left_over = is_restored && (object.is_kept || self.is_marker_stuck);
            object.marked && !is_left_over
        })
    }

    /// Returns the write that puts a record in its place or removes what is left of a fence, and
    /// the instant from which it may be sent. It must not be sent while a flow works on the target.
    pub(super) fn upkeep(&self, wanted: Direction, target: &Target) -> Option<(Time, Call)> {
        let object = self.present().filter(|_| self.upkeep.is_none())?;
        let is_fenced = goal(Direction::Up, target, object).is_some();
        match &self.kept {
            Some(kept) if kept.is_unneeded(target, object) => {
                let drop = DropRecord::new(kept.clone());
                Some((self.drop_record_at, Call::DropRecord(drop)))
            }
            Some(_) if wanted == Direction::Down && is_fenced => {
                let record = MoveRecord::new(object)?;
                Some((self.webhook_at, Call::MoveRecord(record)))
            }
            None if wanted == Direction::Up && self.is_marker_stuck && !is_fenced => {
                let drop = DropMarker::new(Marked::found(object)?);
                Some((self.webhook_at, Call::DropMarker(drop)))
            }
            _ => None,
        }
    }

    /// Takes in that a write ended that belonged to no flow.
    pub(super) fn upkeep_ended(&mut self, call: &Call, now: Time) {
        self.upkeep = None;
        match call {
            Call::DropRecord(_) => self.drop_record_at = now.after(RETRY),
            _ => self.webhook_at = now.after(WEBHOOK_INTERVAL),
        }
    }

    /// Returns whether the last write may have changed the target since it was read.
    pub(super) fn is_unsure(&self) -> bool {
        self.doubt
            .as_ref()
            .is_some_and(|doubt| doubt.is_open && doubt.is_unread)
    }

    /// Returns whether a watchdog has fenced the target, as far as is known.
    pub(super) fn is_fenced(&self, target: &Target) -> bool {
        let is_fenced =
            |object: &TargetObject| object.marked && !object.ignored && !runs(object, target);
        self.present().is_some_and(is_fenced)
    }

    /// Returns whether a watchdog has marked the target, as far as is known.
    pub(super) fn has_marker(&self) -> bool {
        self.present().is_some_and(|object| object.marked)
    }

    /// Returns whether the target is not yet as a flow in this direction wants it.
    pub(super) fn is_against(&self, direction: Direction, target: &Target) -> bool {
        match direction {
            Direction::Down => self.runs(target),
            Direction::Up => self.is_marked(target),
        }
    }

    /// Returns whether a fence would change the target, as far as is known.
    pub(super) fn runs(&self, target: &Target) -> bool {
        self.present().is_some_and(|object| runs(object, target))
    }

    /// Returns whether the target is fenced and its setting is in effect.
    pub(super) fn has_stopped(&self, target: &Target) -> bool {
        let has_stopped = |object: &TargetObject| {
            !runs(object, target) && object.effective <= fenced_setting(target)
        };
        self.present().is_some_and(has_stopped)
    }

    /// Returns the state that a flow may act on without reading the target.
    pub(super) fn known(&self, direction: Direction, target: &Target) -> Option<&Observed> {
        let object = self.present().filter(|_| self.is_watched)?;
        // A state that leaves nothing to do is taken only if no write is in doubt.
        let has_goal = goal(direction, target, object).is_some();
        self.observed
            .as_ref()
            .filter(|_| has_goal || !self.is_unsure())
    }

    /// Returns the order of a state and the known one; `None` if it cannot be told.
    pub(super) fn order(&self, observed: &Observed) -> Option<Ordering> {
        match (self.present(), observed) {
            (Some(known), Observed::Present(new)) => new.version.compare(&known.version),
            _ => Some(Ordering::Greater),
        }
    }

    pub(super) fn refresh_now(&mut self) {
        self.refresh_at = Time::MIN;
        self.refresh = None;
    }

    /// Returns the instant of the next refresh, unless one is under way.
    pub(super) fn next_refresh(&self, wanted: Option<Direction>) -> Option<Time> {
        let is_polled = wanted == Some(Direction::Down) && self.failures == 0 && !self.is_watched;
        let fenced = is_polled.then(|| aligned(self.read_at, FENCED_REFRESH_INTERVAL));
        let next = fenced.map_or(self.refresh_at, |fenced| fenced.min(self.refresh_at));
        self.refresh.is_none().then_some(next)
    }

    /// Takes in the state of the target at `now`.
    pub(super) fn learn(&mut self, observed: Observed, now: Time) {
        let version = match &observed {
            Observed::Present(object) => Some(&object.version),
            Observed::Missing => None,
        };
        self.doubt.take_if(|doubt| {
            !version.is_some_and(|version| version.overlaps(&doubt.version)) || now >= doubt.until
        });
        let is_marked = matches!(&observed, Observed::Present(object) if object.marked);
        self.is_marker_stuck &= is_marked;
        self.learned = Some(observed);
        self.add_kept();
        self.read_at = now;
        self.failures = 0;
        self.refresh_at = aligned(now, REFRESH_INTERVAL);
        if let Some(doubt) = &self.doubt {
            self.refresh_at = self.refresh_at.min(now.after(doubt.pause()));
        }
    }

    /// Takes in the result of a read. A state that is older than the known one is replaced by it.
    pub(super) fn read(&mut self, observed: Observed, now: Time) -> Observed {
        if let Some(doubt) = &mut self.doubt {
            doubt.is_unread = false;
            doubt.looks += 1;
        }
        let learned = match &self.learned {
            Some(known) if self.order(&observed) == Some(Ordering::Less) => known.clone(),
            _ => observed.clone(),
        };
        self.learn(learned, now);
        self.observed.clone().unwrap_or(observed)
    }

    /// Notes a write that is about to be sent.
    pub(super) fn sent(&mut self, version: &ResourceVersion, flow: u64, until: Time, now: Time) {
        match &mut self.doubt {
            Some(doubt) => {
                doubt.is_open = true;
                doubt.until = doubt.until.max(until);
            }
            None => {
                self.doubt = Some(WriteDoubt {
                    version: version.clone(),
                    flow,
                    until,
                    is_open: false,
                    is_unread: true,
                    looks: 0,
                });
            }
        }
        self.refresh_at = self.refresh_at.min(now.after(RETRY));
    }

    /// Takes in the answer to a write.
    pub(super) fn written(&mut self, call: &Call, answer: &WriteAnswer, now: Time) {
        let object = match answer {
            WriteAnswer::Object(object) => object.clone(),
            WriteAnswer::Version(version) => {
                let Some(Observed::Present(mut object)) = self.learned.clone() else {
                    return;
                };
                object.version = version.clone();
                match call {
                    Call::WriteRecord(write) => object.mark(write.setting()),
                    Call::Fence(write) => {
                        if write.carries_record() {
                            object.mark(write.recorded());
                        }
                        object.setting = write.setting();
                    }
                    Call::Restore(write) => {
                        object.marked &= !write.drops_marker();
                        object.setting = write.setting();
                    }
                    Call::DropMarker(_) => object.marked = false,
                    Call::MoveRecord(write) => object.mark(write.setting()),
                    Call::Read | Call::KeepRecord(_) | Call::DropRecord(_) => {}
                }
                object
            }
        };
        let object = Observed::Present(object);
        // A watch may have shown a newer state already.
        if self.order(&object) != Some(Ordering::Less) {
            self.learn(object, now);
        }
    }

    /// Takes in that a write to the leader Lease succeeded.
    pub(super) fn lease_written(&mut self, call: &Call, now: Time) {
        match call {
            Call::KeepRecord(keep) => self.set_kept(Some(keep.kept().clone()), now),
            Call::DropRecord(drop) if self.kept.as_ref() == Some(drop.kept()) => {
                self.set_kept(None, now);
            }
            _ => {}
        }
    }

    /// Takes in the reply to a call that told nothing about the target.
    pub(super) fn failed(&mut self, call: &Call, reply: &Reply, flow: Option<u64>, now: Time) {
        if let (Call::DropMarker(_), Reply::WebhookFailed) = (call, reply) {
            self.is_marker_stuck = true;
            self.webhook_at = now.after(WEBHOOK_INTERVAL);
        }
        let Some(version) = call.version() else {
            if call.is_write() {
                return;
            }
            // Refreshes that keep failing must not crowd out those of other clusters.
            let longest = match self.doubt {
                Some(_) => DOUBT_INTERVAL,
                None => REFRESH_INTERVAL,
            };
            let pause = RETRY.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS));
            self.refresh_at = now.after(pause.min(longest));
            self.failures = self.failures.saturating_add(1);
            return;
        };
        match (&mut self.doubt, reply) {
            (doubt @ Some(_), Reply::Rejected | Reply::WebhookFailed) => {
                doubt.take_if(|doubt| Some(doubt.flow) == flow && !doubt.is_open);
            }
            // After a conflict, the state is unknown too.
            (Some(doubt), _) if doubt.version == *version => {
                doubt.is_open = true;
                doubt.is_unread = true;
            }
            _ => {}
        }
        self.refresh_at = self.refresh_at.min(now.after(RETRY));
    }
}

impl WriteDoubt {
    /// Returns the time from one read to the next.
    fn pause(&self) -> Duration {
        RETRY
            .saturating_mul(1 << self.looks.min(MOST_DOUBLINGS))
            .min(DOUBT_INTERVAL)
    }
}

/// Returns whether a fence would change the target.
fn runs(object: &TargetObject, target: &Target) -> bool {
    goal(Direction::Down, target, object).is_some()
}

/// Returns the first full period after this instant.
fn aligned(now: Time, age: Duration) -> Time {
    let past = now.as_micros().rem_euclid(micros(age));
    now.after(age).plus(-past)
}
