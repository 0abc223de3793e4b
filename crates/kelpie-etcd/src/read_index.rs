//! Gets a read index, and distinguishes a member that is catching up from one that is stuck.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, SharedCall};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::raft_progress::RaftProgress;
use crate::{EtcdError, EtcdMetrics, EtcdVersion, Member, MemberStatus};

/// Time limit of a call. After it the member's progress decides, because slow is not unready.
///
/// Together with the decision it is well below the 5 s for which readyz reuses the last result, so
/// that an excuse comes in time.
const CALL_TIMEOUT: Duration = Duration::from_millis(2_500);

/// The member's progress is recorded once the first call of an episode takes this long. Later calls
/// of the same episode record it sooner.
const RECORD_AFTER: Duration = Duration::from_secs(1);

/// readyz reuses a result for 5 s. A result older than this may expire before the next one is
/// there.
const EXPIRES_SOON: Duration = Duration::from_millis(1_500);

/// Time limit of the additional calls to the member and to its leader.
const SIDE_CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for which progress excuses a hanging read while the leader's commit index is
/// unknown.
const MAX_BLIND_EXCUSE: Duration = Duration::from_secs(30);

/// Interval between two looks for a lost leader or a defragmentation.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadIndexOutcome {
    Answered,
    Failed(EtcdError),
    /// A defragmentation locks the store, which 3.4 needs for a read index.
    Defragmenting {
        has_leader: Option<bool>,
    },
    Unanswered(MemberProgress),
}

/// The progress of the member while a call was in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberProgress {
    /// The member's applied index soon after the call was sent. `None` if it did not answer.
    pub(crate) applied_before: Option<u64>,
    /// The member's applied index at the end of the call. `None` if it did not answer.
    pub(crate) applied_after: Option<u64>,
    /// The leader's commit index soon after the call was sent. `None` if it did not answer.
    pub(crate) leader_commit: Option<u64>,
    /// The member was the leader soon after the call was sent.
    pub(crate) is_leader: bool,
    /// The time for which no call has been answered.
    pub(crate) unanswered_for: Duration,
}

/// Fails if there is no leader, on an error, or if the member is stuck.
///
/// Only progress excuses a read that does not complete, and only while the member has entries to
/// catch up with.
pub(crate) fn judge(outcome: &ReadIndexOutcome) -> CheckResult {
    match outcome {
        // etcd rejects the call on a learner, which `non_learner` judges. It checks permissions
        // only after it has the read index.
        ReadIndexOutcome::Answered
        | ReadIndexOutcome::Failed(EtcdError::AccessDenied(_) | EtcdError::Learner)
        | ReadIndexOutcome::Defragmenting {
            has_leader: Some(true),
        } => Ok(()),
        ReadIndexOutcome::Failed(error) => Err(FailureReason::of(error)),
        ReadIndexOutcome::Defragmenting { .. } => Err(FailureReason::from("no leader")),
        ReadIndexOutcome::Unanswered(progress) => judge_progress(progress),
    }
}

fn judge_progress(progress: &MemberProgress) -> CheckResult {
    let caught_up = |applied| {
        progress
            .leader_commit
            .is_some_and(|commit| applied >= commit)
    };
    match (progress.applied_before, progress.applied_after) {
        // A leader asks its followers to confirm a read. Its own commit index does not tell a lost
        // quorum from a stuck loop.
        (_, Some(after)) if caught_up(after) && progress.is_leader => Err(FailureReason::from(
            "no quorum confirms that this member leads; with a quorum, the read loop is stuck",
        )),
        (_, Some(after)) if caught_up(after) => Err(FailureReason::from(
            "read loop stuck: everything is applied that was committed when the read was sent",
        )),
        (Some(before), Some(after)) if after > before => {
            let blind = progress.leader_commit.is_none();
            if !(blind && progress.unanswered_for > MAX_BLIND_EXCUSE) {
                return Ok(());
            }
            Err(FailureReason::from(
                "read loop stuck: entries are applied, but no read has completed for 30s",
            ))
        }
        (Some(_), Some(_)) => Err(FailureReason::from(
            "apply stuck: the read hangs and no entry is applied",
        )),
        _ => Err(FailureReason::from(
            "no answer, and the member's progress is unknown",
        )),
    }
}

/// The state that calls leave for later ones.
#[derive(Debug, Default)]
pub(crate) struct ReadIndexHistory {
    /// The end of the last call, with any outcome.
    last_ended: Option<Instant>,
    /// The start of the first call of those that have not been answered since.
    unanswered_since: Option<Instant>,
}

/// A read index call with everything it needs.
#[derive(Clone)]
pub(crate) struct ReadIndexCall {
    pub(crate) member: Arc<dyn Member>,
    pub(crate) status: SharedCall<Result<MemberStatus, EtcdError>>,
    pub(crate) metrics: SharedCall<Result<EtcdMetrics, EtcdError>>,
    pub(crate) raft_progress: Arc<Mutex<RaftProgress>>,
    pub(crate) history: Arc<Mutex<ReadIndexHistory>>,
    pub(crate) max_age: Duration,
    pub(crate) detects_defrag: bool,
}

impl ReadIndexCall {
    pub(crate) async fn run(self) -> ReadIndexOutcome {
        let sent = Instant::now();
        let expires_soon = self.last_result_expires_soon(sent);
        // Nearly every call ends before this and needs no additional calls.
        let record_after = if expires_soon || self.unanswered_for(sent).is_some() {
            self.max_age / 6
        } else {
            RECORD_AFTER
        };
        let recorded = Mutex::new(MemberProgress::default());
        let calling = async {
            match self.version().await {
                Err(error) => ReadIndexOutcome::Failed(error),
                Ok(version) if version.has_linearizable_member_list() => {
                    let answer = self.member.read_index().await;
                    answer.map_or_else(ReadIndexOutcome::Failed, |()| ReadIndexOutcome::Answered)
                }
                Ok(_) => self.linearizable_read().await,
            }
        };
        let recording = async {
            sleep(record_after).await;
            self.record_start(&recorded).await;
            if expires_soon {
                sleep_until(sent + self.max_age / 2).await;
                let status = self.status_within(self.max_age / 4).await;
                let progress = self.progress(&recorded, status, sent);
                // Only an excuse ends the call early. A failure waits for the full time limit.
                let outcome = ReadIndexOutcome::Unanswered(progress);
                if judge(&outcome).is_ok() {
                    return outcome;
                }
            }
            std::future::pending().await
        };
        let within = timeout(CALL_TIMEOUT, async {
            tokio::select! {
                biased;
                outcome = calling => outcome,
                () = self.wait_for_lost_leader() => ReadIndexOutcome::Failed(EtcdError::NoLeader),
                excused = recording => excused,
            }
        });
        let outcome = if let Ok(outcome) = within.await {
            outcome
        } else {
            let status = self.status_within(SIDE_CALL_TIMEOUT).await;
            ReadIndexOutcome::Unanswered(self.progress(&recorded, status, sent))
        };
        self.record_outcome(sent, &outcome);
        outcome
    }

    /// Completes once the member knows no leader any more.
    ///
    /// etcd looks for a leader when a call begins, so a call sent just before the loss hangs.
    async fn wait_for_lost_leader(&self) {
        loop {
            sleep(POLL_INTERVAL).await;
            let status = self.status.get(self.max_age).await;
            if let Ok(Ok(MemberStatus { leader: 0, .. })) = status {
                return;
            }
        }
    }

    /// Records the indices of the member and of its leader near the start of the call.
    async fn record_start(&self, recorded: &Mutex<MemberProgress>) {
        // A call in flight will do: its result is as of its arrival.
        let status = timeout(SIDE_CALL_TIMEOUT, self.status.get(self.max_age)).await;
        let Ok(Ok(Ok(status))) = status else {
            return;
        };
        {
            let mut recorded = recorded.lock();
            recorded.applied_before = Some(status.applied);
            recorded.is_leader = status.leader == status.id;
        }
        let commit = self.leader_commit(&status).await;
        recorded.lock().leader_commit = commit;
    }

    fn progress(
        &self,
        recorded: &Mutex<MemberProgress>,
        status: Option<MemberStatus>,
        sent: Instant,
    ) -> MemberProgress {
        let now = Instant::now();
        MemberProgress {
            applied_after: status.map(|status| status.applied),
            unanswered_for: self.unanswered_for(now).unwrap_or(now - sent),
            ..*recorded.lock()
        }
    }

    /// Returns true if the last result is so old that readyz soon cannot reuse it.
    fn last_result_expires_soon(&self, now: Instant) -> bool {
        let last = self.history.lock().last_ended;
        last.is_none_or(|last| now.saturating_duration_since(last) > EXPIRES_SOON)
    }

    /// Returns the server version from the first source that answers.
    ///
    /// The status call hangs during a defragmentation; the metrics page does not.
    async fn version(&self) -> Result<EtcdVersion, EtcdError> {
        let known = self.status.last().and_then(|(last, _)| last.ok()?.ok());
        if let Some(version) = known.and_then(|status| status.version) {
            return Ok(version);
        }
        let by_status = async {
            match self.status.get(self.max_age).await {
                Ok(Ok(status)) => Ok(status.version),
                Ok(Err(error)) => Err(error),
                Err(_) => Ok(None),
            }
        };
        let by_metrics = async {
            match self.metrics.get(self.max_age).await {
                Ok(Ok(metrics)) if metrics.version.is_some() => metrics.version,
                _ => std::future::pending().await,
            }
        };
        let version = tokio::select! {
            biased;
            version = by_status => version,
            version = by_metrics => Ok(version),
        };
        match version {
            Ok(Some(version)) => Ok(version),
            // The metrics have the version even if the user may not call Status.
            Err(EtcdError::AccessDenied(_)) | Ok(None) => {
                match self.metrics.get(self.max_age).await {
                    Ok(Ok(EtcdMetrics {
                        version: Some(version),
                        ..
                    })) => Ok(version),
                    // Every version that requires credentials for Status, except two of 3.4, has
                    // linearizable member lists.
                    _ => Ok(EtcdVersion(3, 5)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Gets a read index from 3.4, where only a read from the store waits for one.
    async fn linearizable_read(&self) -> ReadIndexOutcome {
        let wait_for_defrag = async {
            loop {
                sleep(POLL_INTERVAL).await;
                if let Ok(Ok(metrics)) = self.metrics.get(POLL_INTERVAL / 2).await
                    && metrics.defrag_inflight == Some(true)
                    && self.detects_defrag
                {
                    return metrics.has_leader;
                }
            }
        };
        tokio::select! {
            biased;
            read = self.member.linearizable_read() => {
                read.map_or_else(ReadIndexOutcome::Failed, |()| ReadIndexOutcome::Answered)
            }
            has_leader = wait_for_defrag => ReadIndexOutcome::Defragmenting { has_leader },
        }
    }

    async fn status_within(&self, limit: Duration) -> Option<MemberStatus> {
        let status = timeout(limit, self.status.get(Duration::ZERO)).await;
        status.ok()?.ok()?.ok()
    }

    async fn leader_commit(&self, status: &MemberStatus) -> Option<u64> {
        if status.leader == 0 {
            return None;
        }
        if status.leader == status.id {
            return Some(status.commit);
        }
        let calling = self.member.leader_commit(status.leader);
        timeout(SIDE_CALL_TIMEOUT, calling).await.ok()?.ok()
    }

    fn unanswered_for(&self, now: Instant) -> Option<Duration> {
        let since = self.history.lock().unanswered_since;
        since.map(|since| now.saturating_duration_since(since))
    }

    fn record_outcome(&self, sent: Instant, outcome: &ReadIndexOutcome) {
        let now = Instant::now();
        let mut history = self.history.lock();
        history.last_ended = Some(now);
        match outcome {
            ReadIndexOutcome::Unanswered(_) => {
                let since = *history.unanswered_since.get_or_insert(sent);
                self.raft_progress.lock().record_unanswered(since, now);
            }
            ReadIndexOutcome::Answered | ReadIndexOutcome::Failed(EtcdError::AccessDenied(_)) => {
                history.unanswered_since = None;
                self.raft_progress.lock().record_answer(now);
            }
            ReadIndexOutcome::Failed(_) | ReadIndexOutcome::Defragmenting { .. } => {
                history.unanswered_since = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unanswered(
        applied_before: Option<u64>,
        applied_after: Option<u64>,
        leader_commit: Option<u64>,
        seconds: u64,
    ) -> ReadIndexOutcome {
        ReadIndexOutcome::Unanswered(MemberProgress {
            applied_before,
            applied_after,
            leader_commit,
            is_leader: false,
            unanswered_for: Duration::from_secs(seconds),
        })
    }

    #[test]
    fn leader_without_quorum_is_not_called_stuck() {
        let outcome = ReadIndexOutcome::Unanswered(MemberProgress {
            applied_before: Some(5),
            applied_after: Some(5),
            leader_commit: Some(5),
            is_leader: true,
            unanswered_for: Duration::from_secs(4),
        });
        let reason = judge(&outcome).unwrap_err().to_string();
        assert!(reason.starts_with("no quorum confirms"), "{reason}");
    }

    #[test]
    fn outcomes_follow_the_table() {
        let ok = "ok";
        let failed = |error: &EtcdError| ReadIndexOutcome::Failed(error.clone());
        let denied = EtcdError::AccessDenied("etcdserver: user name is empty".to_owned());
        let defrag = |has_leader| ReadIndexOutcome::Defragmenting { has_leader };
        for (name, outcome, expected) in [
            ("answered", ReadIndexOutcome::Answered, ok),
            ("denied", failed(&denied), ok),
            ("learner", failed(&EtcdError::Learner), ok),
            ("no leader", failed(&EtcdError::NoLeader), "no leader"),
            (
                "refused",
                failed(&EtcdError::ConnectionRefused),
                "connection refused",
            ),
            ("defrag on 3.4", defrag(Some(true)), ok),
            ("defrag, no leader", defrag(Some(false)), "no leader"),
            (
                "catching up",
                unanswered(Some(5), Some(9), Some(600), 99),
                ok,
            ),
            (
                "caught up",
                unanswered(Some(5), Some(600), Some(600), 4),
                "read loop stuck",
            ),
            (
                "read loop dead",
                unanswered(Some(5), Some(5), Some(5), 4),
                "read loop stuck",
            ),
            (
                "apply dead",
                unanswered(Some(5), Some(5), Some(9), 4),
                "apply stuck",
            ),
            ("blind, short", unanswered(Some(5), Some(9), None, 30), ok),
            (
                "blind, long",
                unanswered(Some(5), Some(9), None, 31),
                "read loop stuck",
            ),
            (
                "blind, still",
                unanswered(Some(5), Some(5), None, 4),
                "apply stuck",
            ),
            (
                "nothing known",
                unanswered(None, None, None, 4),
                "no answer",
            ),
            (
                "late status",
                unanswered(None, Some(9), None, 4),
                "no answer",
            ),
            (
                "store hangs",
                unanswered(Some(5), None, Some(9), 4),
                "no answer",
            ),
        ] {
            let result = judge(&outcome);
            let text = result.map_or_else(|reason| reason.to_string(), |()| ok.to_owned());
            assert!(text.starts_with(expected), "{name}: {text}");
        }
    }
}
