//! Pauses after calls that failed.

use std::time::Duration;

use super::call::GuardCall;
use crate::Time;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const FIRST_REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// A refusal may be brief, and a guard that was armed must not run out meanwhile.
const LONGEST_REFUSED_PAUSE_ONCE_ARMED: Duration = Duration::from_secs(30);
const LONGEST_REFUSED_PAUSE: Duration = Duration::from_mins(5);

/// A kind of calls that fail and recover together. A webhook may deny every write while all reads
/// succeed, and an API server may know a policy and not enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Read,
    Write,
    Ask,
}

impl From<&GuardCall> for CallKind {
    fn from(call: &GuardCall) -> Self {
        match call {
            GuardCall::ReadPolicy | GuardCall::ReadBinding => Self::Read,
            GuardCall::AskEnforced => Self::Ask,
            GuardCall::WritePolicy { .. } | GuardCall::WriteBinding { .. } | GuardCall::Remove => {
                Self::Write
            }
        }
    }
}

/// The pauses before the next calls. They double with each failure.
#[derive(Debug, Default)]
pub(super) struct Retries {
    reads: Backoff,
    writes: Backoff,
    asks: Backoff,
    refusals: Backoff,
}

#[derive(Debug)]
struct Backoff {
    failures: u32,
    not_before: Time,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            failures: 0,
            not_before: Time::MIN,
        }
    }
}

impl Backoff {
    fn fail(&mut self, now: Time, first: Duration, longest: Duration) {
        let pause = first.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.after(pause.min(longest));
    }
}

impl Retries {
    /// Returns the instant before which no such call is made.
    pub(super) fn not_before(&self, kind: CallKind) -> Time {
        let backoff = match kind {
            CallKind::Read => &self.reads,
            CallKind::Write => &self.writes,
            CallKind::Ask => &self.asks,
        };
        backoff.not_before.max(self.refusals.not_before)
    }

    pub(super) fn succeeded(&mut self, kind: CallKind) {
        *self.backoff(kind) = Backoff::default();
        match kind {
            // Reading may be allowed where writing is not.
            CallKind::Read => {}
            CallKind::Ask => self.refusals = Backoff::default(),
            CallKind::Write => {
                self.refusals = Backoff::default();
                // A new policy is enforced soon, whatever became of the last one.
                self.asks = Backoff::default();
            }
        }
    }

    pub(super) fn failed(&mut self, kind: CallKind, now: Time) {
        self.backoff(kind).fail(now, FIRST_PAUSE, LONGEST_PAUSE);
    }

    pub(super) fn refused(&mut self, was_armed: bool, now: Time) {
        let longest = if was_armed {
            LONGEST_REFUSED_PAUSE_ONCE_ARMED
        } else {
            LONGEST_REFUSED_PAUSE
        };
        self.refusals.fail(now, FIRST_REFUSED_PAUSE, longest);
    }

    fn backoff(&mut self, kind: CallKind) -> &mut Backoff {
        match kind {
            CallKind::Read => &mut self.reads,
            CallKind::Write => &mut self.writes,
            CallKind::Ask => &mut self.asks,
        }
    }
}
