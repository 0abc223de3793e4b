//! Distinguishes a stuck raft loop from a lost quorum and from an idle member.
//!
//! Without quorum a member still ticks, and drops its leader within two election timeouts. With a
//! stuck raft loop the leader stays, no entry is committed or applied, and no linearizable read
//! completes. An idle member commits nothing either, but its reads complete.

use std::time::Duration;

use tokio::time::Instant;

use crate::{EtcdMetrics, MemberStatus};

/// The observed progress of a member's raft loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaftProgress {
    /// A read index was answered at least once. A member that was never ready cannot be called
    /// stuck.
    was_ready: bool,
    position: Option<LastPosition>,
    is_learner: bool,
    last_answer: Option<Instant>,
    unanswered: Option<UnansweredReads>,
}

/// The last position in the raft log, and the time for which it has not changed.
#[derive(Clone, Copy, Debug)]
struct LastPosition {
    position: LogPosition,
    unchanged_since: Instant,
    seen: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogPosition {
    leader: u64,
    commit: u64,
    applied: u64,
}

/// The consecutive reads that were not answered.
#[derive(Clone, Copy, Debug)]
struct UnansweredReads {
    /// The instant at which the first of them was sent.
    first_sent: Instant,
    /// The instant at which the last of them timed out.
    last_timeout: Instant,
    /// The number of reads that timed out.
    timeouts: u32,
}

/// Maximum age of an observation that still counts as current.
const RECENT: Duration = Duration::from_secs(10);

/// Maximum age of the last timeout if several reads in a row timed out. Some probes are a minute
/// apart, and a read times out only after the probe that sent it has its response.
const RECENT_SERIES: Duration = Duration::from_secs(70);

impl RaftProgress {
    pub(crate) fn record_status(&mut self, now: Instant, status: &MemberStatus) {
        let position = LogPosition {
            leader: status.leader,
            commit: status.commit,
            applied: status.applied,
        };
        let unchanged_since = match self.position {
            Some(last) if last.position == position => last.unchanged_since,
            _ => now,
        };
        self.position = Some(LastPosition {
            position,
            unchanged_since,
            seen: now,
        });
        self.is_learner = status.is_learner;
    }

    pub(crate) fn record_answer(&mut self, now: Instant) {
        self.was_ready = true;
        self.last_answer = Some(now);
        self.unanswered = None;
    }

    /// Records a read that timed out. `first_sent` is the start of the first of the consecutive
    /// reads that did.
    pub(crate) fn record_unanswered(&mut self, first_sent: Instant, now: Instant) {
        let timeouts = self.unanswered.map_or(0, |unanswered| unanswered.timeouts);
        self.unanswered = Some(UnansweredReads {
            first_sent,
            last_timeout: now,
            timeouts: timeouts.saturating_add(1),
        });
    }

    /// Forgets everything, because the member was restarted or replaced.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns for how long there was no progress despite a leader.
    ///
    /// `None` means that there was progress, or that the observations are not conclusive.
    pub(crate) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        let last = self.position?;
        let unanswered = self.unanswered?;
        let age = |at| now.saturating_duration_since(at);
        let may_be_stuck = self.was_ready && !self.is_learner && last.position.leader != 0;
        let max_age = if unanswered.timeouts > 1 {
            RECENT_SERIES
        } else {
            RECENT
        };
        let is_current = age(last.seen) <= RECENT && age(unanswered.last_timeout) <= max_age;
        if !(may_be_stuck && is_current) {
            return None;
        }
        let since = last.unchanged_since;
        let since = self.last_answer.map_or(since, |answer| answer.max(since));
        // Time before the first unanswered read does not count: no read was sent then.
        let since = since.max(unanswered.first_sent);
        // Nothing is known after the last observation.
        let until = last.seen.max(unanswered.last_timeout);
        Some(until.saturating_duration_since(since))
    }
}

/// Returns for how long the raft loop has been stuck, once that is long enough to report.
///
/// Without the member's metrics a snapshot cannot be ruled out, so nothing is reported.
pub(crate) fn stuck_for(
    stalled: Option<Duration>,
    election_timeout: Duration,
    defrag: bool,
    metrics: Option<&EtcdMetrics>,
) -> Option<Duration> {
    let threshold = (election_timeout * 5).max(Duration::from_secs(10));
    let no_snapshot = metrics.is_some_and(|metrics| metrics.snapshots == 0);
    stalled.filter(|stalled| *stalled >= threshold && !defrag && no_snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WatchProgress;

    fn status(leader: u64, commit: u64, applied: u64) -> MemberStatus {
        MemberStatus {
            version: None,
            watch_progress: WatchProgress::Always,
            id: 1,
            leader,
            commit,
            applied,
            is_learner: false,
            is_corrupt: false,
            is_out_of_space: false,
        }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// A member that was ready, then is observed every second with reads that hang.
    fn stalled(start: Instant, seconds: u64, seen: impl Fn(u64) -> MemberStatus) -> RaftProgress {
        let mut progress = RaftProgress::default();
        progress.record_status(start, &seen(0));
        progress.record_answer(start);
        for second in 1..=seconds {
            progress.record_status(after(start, second), &seen(second));
            progress.record_unanswered(start, after(start, second));
        }
        progress
    }

    #[test]
    fn stuck_loop_is_detected() {
        let start = Instant::now();
        let progress = stalled(start, 12, |_| status(1, 5, 4));
        let stalled = progress.stalled_for(after(start, 12));
        assert_eq!(stalled, Some(Duration::from_secs(12)));
    }

    #[test]
    fn time_without_reads_does_not_count() {
        let start = Instant::now();
        let mut progress = RaftProgress::default();
        progress.record_status(start, &status(1, 5, 4));
        progress.record_answer(start);
        // An hour later the first read hangs.
        let (sent, now) = (after(start, 3600), after(start, 3603));
        progress.record_status(now, &status(1, 5, 4));
        progress.record_unanswered(sent, now);
        assert_eq!(progress.stalled_for(now), Some(Duration::from_secs(3)));
    }

    #[test]
    fn other_conditions_are_not_a_stuck_loop() {
        let start = Instant::now();
        let now = after(start, 12);
        let still = |_| status(1, 5, 4);
        let moving = stalled(start, 12, |second| status(1, 5 + second, 4));
        assert_eq!(moving.stalled_for(now), Some(Duration::ZERO), "it commits");
        let applying = stalled(start, 12, |second| status(1, 5, second));
        assert_eq!(
            applying.stalled_for(now),
            Some(Duration::ZERO),
            "it applies"
        );
        let lost = stalled(start, 12, |second| status(u64::from(second < 3), 5, 4));
        assert_eq!(lost.stalled_for(now), None, "quorum is lost");
        let learner = stalled(start, 12, |_| MemberStatus {
            is_learner: true,
            ..status(1, 5, 4)
        });
        assert_eq!(learner.stalled_for(now), None, "learner");

        let mut answers = stalled(start, 12, still);
        answers.record_answer(after(start, 11));
        assert_eq!(answers.stalled_for(now), None, "reads are answered");
        answers.record_unanswered(after(start, 11), now);
        assert_eq!(answers.stalled_for(now), Some(Duration::from_secs(1)));

        let mut never_ready = RaftProgress::default();
        for second in 0..12 {
            never_ready.record_status(after(start, second), &status(1, 5, 4));
            never_ready.record_unanswered(start, after(start, second));
        }
        assert_eq!(never_ready.stalled_for(now), None, "was never ready");

        let old = stalled(start, 12, still);
        assert_eq!(old.stalled_for(after(start, 30)), None, "not observed");
        let mut replaced = stalled(start, 12, still);
        replaced.reset();
        assert_eq!(replaced.stalled_for(now), None, "restarted");
    }

    #[test]
    fn stuck_is_reported_late() {
        let seconds = Duration::from_secs;
        let snapshot = EtcdMetrics {
            snapshots: 1,
            ..EtcdMetrics::default()
        };
        let metrics = EtcdMetrics::default();
        for (name, stalled, election, defrag, metrics, reported) in [
            ("long enough", 10, 1, false, Some(&metrics), true),
            ("no metrics", 60, 1, false, None, false),
            ("too short", 9, 1, false, Some(&metrics), false),
            ("slow elections", 49, 10, false, Some(&metrics), false),
            ("slow elections, long", 50, 10, false, Some(&metrics), true),
            ("defrag", 60, 1, true, Some(&metrics), false),
            ("snapshot", 60, 1, false, Some(&snapshot), false),
        ] {
            let stalled = Some(seconds(stalled));
            let stuck = stuck_for(stalled, seconds(election), defrag, metrics);
            assert_eq!(stuck.is_some(), reported, "{name}");
        }
        assert_eq!(stuck_for(None, seconds(1), false, Some(&metrics)), None);
    }
}
