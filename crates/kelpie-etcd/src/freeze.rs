//! A raft loop that does not turn, told from a lost quorum and from rest.
//!
//! Without quorum a member still ticks and gives up its leader within two election timeouts. With
//! its raft loop stuck the leader stays, nothing is committed or applied, and no linearizable read
//! ends. At rest nothing is committed either, but reads end.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Sample, Status};

/// What was seen of a member's raft loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freeze {
    /// A read index was answered once: a member that never was ready cannot be said to be stuck.
    was_ready: bool,
    /// Where the log stood when last seen, since when, and when last.
    still: Option<(Position, Instant, Instant)>,
    is_learner: bool,
    answered: Option<Instant>,
    /// When the first of the reads was sent that have not been answered since, and when the last of
    /// them was given up.
    unanswered: Option<(Instant, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    leader: u64,
    commit: u64,
    applied: u64,
}

/// What was seen last must not be older than this to say something about now.
const RECENT: Duration = Duration::from_secs(10);

impl Freeze {
    pub(crate) fn status(&mut self, now: Instant, status: &Status) {
        let position = Position {
            leader: status.leader,
            commit: status.commit,
            applied: status.applied,
        };
        let since = match self.still {
            Some((before, since, _)) if before == position => since,
            _ => now,
        };
        self.still = Some((position, since, now));
        self.is_learner = status.is_learner;
    }

    pub(crate) fn answered(&mut self, now: Instant) {
        self.was_ready = true;
        self.answered = Some(now);
        self.unanswered = None;
    }

    /// A read was given up; `since` is when the first was sent of those in a row that were.
    pub(crate) fn unanswered(&mut self, since: Instant, now: Instant) {
        self.unanswered = Some((since, now));
    }

    /// The member is another one than before, or was restarted.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// How long nothing has moved although there is a leader; none if something did, or if that
    /// cannot be said.
    pub(crate) fn frozen_for(&self, now: Instant) -> Option<Duration> {
        let (position, since, seen) = self.still?;
        let (asked, unanswered) = self.unanswered?;
        let recent = |at| now.saturating_duration_since(at) <= RECENT;
        let stuck = self.was_ready && !self.is_learner && position.leader != 0;
        if !(stuck && recent(seen) && recent(unanswered)) {
            return None;
        }
        // While nobody asked, nothing was left unanswered.
        let since = self.answered.map_or(since, |answered| answered.max(since));
        let since = since.max(asked);
        // What was seen last is as far as can be said.
        Some(seen.max(unanswered).saturating_duration_since(since))
    }
}

/// How long the raft loop has been stuck, if it is time to say so. Without the member's metrics
/// page a snapshot cannot be ruled out, and nothing is said.
pub(crate) fn stuck(
    frozen: Option<Duration>,
    election_timeout: Duration,
    defrag: bool,
    page: Option<&Sample>,
) -> Option<Duration> {
    let long = (election_timeout * 5).max(Duration::from_secs(10));
    let no_snapshot = page.is_some_and(|page| page.snapshots == 0);
    frozen.filter(|frozen| *frozen >= long && !defrag && no_snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(leader: u64, commit: u64, applied: u64) -> Status {
        Status {
            version: None,
            id: 1,
            leader,
            commit,
            applied,
            is_learner: false,
            is_corrupt: false,
        }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// A member that was ready, then looked at every second with reads that do not end.
    fn stalled(start: Instant, seconds: u64, seen: impl Fn(u64) -> Status) -> Freeze {
        let mut freeze = Freeze::default();
        freeze.status(start, &seen(0));
        freeze.answered(start);
        for second in 1..=seconds {
            freeze.status(after(start, second), &seen(second));
            freeze.unanswered(start, after(start, second));
        }
        freeze
    }

    #[test]
    fn a_stuck_loop_is_seen() {
        let start = Instant::now();
        let freeze = stalled(start, 12, |_| status(1, 5, 4));
        let frozen = freeze.frozen_for(after(start, 12));
        assert_eq!(frozen, Some(Duration::from_secs(12)));
    }

    #[test]
    fn the_time_in_which_nobody_asked_does_not_count() {
        let start = Instant::now();
        let mut freeze = Freeze::default();
        freeze.status(start, &status(1, 5, 4));
        freeze.answered(start);
        // An hour later the first read hangs.
        let (sent, now) = (after(start, 3600), after(start, 3603));
        freeze.status(now, &status(1, 5, 4));
        freeze.unanswered(sent, now);
        assert_eq!(freeze.frozen_for(now), Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_is_not_a_stuck_loop() {
        let start = Instant::now();
        let now = after(start, 12);
        let still = |_| status(1, 5, 4);
        let moving = stalled(start, 12, |second| status(1, 5 + second, 4));
        assert_eq!(moving.frozen_for(now), Some(Duration::ZERO), "commits move");
        let applying = stalled(start, 12, |second| status(1, 5, second));
        assert_eq!(applying.frozen_for(now), Some(Duration::ZERO), "it applies");
        let lost = stalled(start, 12, |second| status(u64::from(second < 3), 5, 4));
        assert_eq!(lost.frozen_for(now), None, "quorum is lost");
        let learner = stalled(start, 12, |_| Status {
            is_learner: true,
            ..status(1, 5, 4)
        });
        assert_eq!(learner.frozen_for(now), None, "learner");

        let mut answers = stalled(start, 12, still);
        answers.answered(after(start, 11));
        assert_eq!(answers.frozen_for(now), None, "reads are answered");
        answers.unanswered(after(start, 11), now);
        assert_eq!(answers.frozen_for(now), Some(Duration::from_secs(1)));

        let mut never_ready = Freeze::default();
        for second in 0..12 {
            never_ready.status(after(start, second), &status(1, 5, 4));
            never_ready.unanswered(start, after(start, second));
        }
        assert_eq!(never_ready.frozen_for(now), None, "never was ready");

        let old = stalled(start, 12, still);
        assert_eq!(old.frozen_for(after(start, 30)), None, "nobody looked");
        let mut replaced = stalled(start, 12, still);
        replaced.forget();
        assert_eq!(replaced.frozen_for(now), None, "restarted");
    }

    #[test]
    fn it_takes_long_to_say_so() {
        let seconds = Duration::from_secs;
        let snapshot = Sample {
            snapshots: 1,
            ..Sample::default()
        };
        let page = Sample::default();
        for (name, frozen, election, defrag, page, said) in [
            ("long enough", 10, 1, false, Some(&page), true),
            ("no page", 60, 1, false, None, false),
            ("too short", 9, 1, false, Some(&page), false),
            ("slow elections", 49, 10, false, Some(&page), false),
            ("slow elections, long", 50, 10, false, Some(&page), true),
            ("defrag", 60, 1, true, Some(&page), false),
            ("snapshot", 60, 1, false, Some(&snapshot), false),
        ] {
            let frozen = Some(seconds(frozen));
            let stuck = stuck(frozen, seconds(election), defrag, page);
            assert_eq!(stuck.is_some(), said, "{name}");
        }
        assert_eq!(stuck(None, seconds(1), false, Some(&page)), None);
    }
}
