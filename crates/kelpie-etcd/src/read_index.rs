//! Can the member get a read index? The call with its circumstances, and what to make of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_health::{Reason, Shared, Verdict};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::calls::locked;
use crate::freeze::Freeze;
use crate::{Fault, Member, Sample, Status, Version};

/// Slow is not unready: a call may take this long before its circumstances are judged. With the
/// judging it is well below the 5 s for which readyz repeats the last result, so that an excuse
/// comes in time.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// A first call that is out for this long has its circumstances noted; later ones of the same
/// episode sooner.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// readyz repeats a result for 5 s. One that is older than this may be too old when the next comes.
const SOON_OLD: Duration = Duration::from_millis(1_500);

/// Asking the leader, or the member itself, on the side.
const ASIDE: Duration = Duration::from_secs(1);

/// Where the leader cannot be asked, progress excuses for this long.
const BLIND: Duration = Duration::from_secs(30);

/// Between two looks whether there still is a leader, or whether a defragmentation holds the store.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How a call went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Answered,
    Failed(Fault),
    /// 3.4 only, whose read index cannot be had without the store: a defragmentation holds it.
    Defragmenting {
        has_leader: Option<bool>,
    },
    Unanswered(Circumstances),
}

/// What was seen while a call was out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Circumstances {
    /// Applied by the member soon after the call was sent; none if it did not say.
    pub(crate) applied_then: Option<u64>,
    /// The same when patience ended.
    pub(crate) applied_now: Option<u64>,
    /// Committed by the leader soon after the call was sent.
    pub(crate) leader_commit: Option<u64>,
    /// For how long no call has been answered.
    pub(crate) unanswered_for: Duration,
}

/// Ready unless there is no leader, an error, or a stuck loop. Only progress excuses a read that
/// does not end, and only while there is something to catch up with.
pub(crate) fn judge(reading: &Reading) -> Verdict {
    match reading {
        // A learner is refused; whether it may be one is for another check. Who is told that he
        // may not read was first given a read index.
        Reading::Answered
        | Reading::Failed(Fault::Denied(_) | Fault::Learner)
        | Reading::Defragmenting {
            has_leader: Some(true),
        } => Ok(()),
        Reading::Failed(fault) => Err(Reason::of(fault)),
        Reading::Defragmenting { .. } => Err(Reason::from("no leader")),
        Reading::Unanswered(seen) => match (seen.applied_then, seen.applied_now) {
            (_, Some(now)) if seen.leader_commit.is_some_and(|commit| now >= commit) => {
                Err(Reason::from(
                    "read loop stuck: all is applied that was committed when the read was sent",
                ))
            }
            (Some(then), Some(now)) if now > then => {
                let blind = seen.leader_commit.is_none() && seen.unanswered_for > BLIND;
                if !blind {
                    return Ok(());
                }
                Err(Reason::from(
                    "read loop stuck: the log is applied, but no read has ended for 30s",
                ))
            }
            (Some(_), Some(_)) => Err(Reason::from(
                "apply stuck: the read does not end and nothing is applied",
            )),
            _ => Err(Reason::from(
                "no answer, and the member's progress is not known",
            )),
        },
    }
}

/// What former calls leave behind.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// When the last one ended, however.
    last: Option<Instant>,
    /// Since when none has been answered.
    unanswered_since: Option<Instant>,
}

/// All that the call needs.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) member: Arc<dyn Member>,
    pub(crate) status: Shared<Result<Status, Fault>>,
    pub(crate) metrics: Shared<Result<Sample, Fault>>,
    pub(crate) freeze: Arc<Mutex<Freeze>>,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) fresh: Duration,
    pub(crate) detects_defrag: bool,
}

impl Call {
    pub(crate) async fn make(self) -> Reading {
        let sent = Instant::now();
        let hurry = self.is_in_a_hurry(sent);
        // Nearly every call is over before, and costs nothing on the side.
        let note_after = if hurry || self.unanswered_for(sent).is_some() {
            self.fresh / 6
        } else {
            NOTE_AFTER
        };
        let noted = Mutex::new(Circumstances::default());
        let asking = async {
            match self.version().await {
                Err(fault) => Reading::Failed(fault),
                Ok(version) if version.has_linearizable_member_list() => {
                    let answer = self.member.read_index().await;
                    answer.map_or_else(Reading::Failed, |()| Reading::Answered)
                }
                Ok(_) => self.with_the_store().await,
            }
        };
        let noting = async {
            sleep(note_after).await;
            self.note(&noted).await;
            if hurry {
                sleep_until(sent + self.fresh / 2).await;
                let applied = self.status_within(self.fresh / 4).await;
                let seen = self.seen(&noted, applied, sent);
                // Only an excuse is early; who has none gets the whole patience.
                if judge(&Reading::Unanswered(seen)).is_ok() {
                    return Reading::Unanswered(seen);
                }
            }
            std::future::pending().await
        };
        let within = timeout(PATIENCE, async {
            tokio::select! {
                biased;
                reading = asking => reading,
                () = self.leader_is_lost() => Reading::Failed(Fault::NoLeader),
                excused = noting => excused,
            }
        });
        let reading = if let Ok(reading) = within.await {
            reading
        } else {
            let applied = self.status_within(ASIDE).await;
            Reading::Unanswered(self.seen(&noted, applied, sent))
        };
        self.remember(sent, &reading);
        reading
    }

    /// Ends when the member knows no leader any more: etcd looks for one when a call begins, and one
    /// that was sent just before the loss hangs.
    async fn leader_is_lost(&self) {
        loop {
            sleep(LOOK_AGAIN).await;
            let status = self.status.get(self.fresh).await;
            if let Ok(Ok(Status { leader: 0, .. })) = status {
                return;
            }
        }
    }

    /// Notes how far the member and its leader are.
    async fn note(&self, noted: &Mutex<Circumstances>) {
        // One that is out already will do: what it says is of when it comes.
        let asked = timeout(ASIDE, self.status.get(self.fresh)).await;
        let Ok(Ok(Ok(status))) = asked else {
            return;
        };
        locked(noted).applied_then = Some(status.applied);
        let commit = self.leader_commit(&status).await;
        locked(noted).leader_commit = commit;
    }

    fn seen(
        &self,
        noted: &Mutex<Circumstances>,
        status: Option<Status>,
        sent: Instant,
    ) -> Circumstances {
        let now = Instant::now();
        Circumstances {
            applied_now: status.map(|status| status.applied),
            unanswered_for: self.unanswered_for(now).unwrap_or(now - sent),
            ..*locked(noted)
        }
    }

    /// Nothing has been said for so long that readyz soon cannot repeat it.
    fn is_in_a_hurry(&self, now: Instant) -> bool {
        let last = locked(&self.memory).last;
        last.is_none_or(|last| now.saturating_duration_since(last) > SOON_OLD)
    }

    /// The version, from whoever says it first: the status hangs during a defragmentation, the
    /// metrics page does not.
    async fn version(&self) -> Result<Version, Fault> {
        let known = self.status.last().and_then(|(last, _)| last.ok()?.ok());
        if let Some(version) = known.and_then(|status| status.version) {
            return Ok(version);
        }
        let by_status = async {
            match self.status.get(self.fresh).await {
                Ok(Ok(status)) => Ok(status.version),
                Ok(Err(fault)) => Err(fault),
                Err(_) => Ok(None),
            }
        };
        let by_metrics = async {
            match self.metrics.get(self.fresh).await {
                Ok(Ok(page)) if page.version.is_some() => page.version,
                _ => std::future::pending().await,
            }
        };
        let said = tokio::select! {
            biased;
            said = by_status => said,
            version = by_metrics => Ok(version),
        };
        match said {
            Ok(Some(version)) => Ok(version),
            // Whoever may not ask for the status can be told by the metrics.
            Err(Fault::Denied(_)) | Ok(None) => match self.metrics.get(self.fresh).await {
                Ok(Ok(Sample {
                    version: Some(version),
                    ..
                })) => Ok(version),
                // Every version that wants credentials for its status, but two of 3.4, knows it.
                _ => Ok(Version(3, 5)),
            },
            Err(fault) => Err(fault),
        }
    }

    /// 3.4: the read index with a read after it.
    async fn with_the_store(&self) -> Reading {
        let looking = async {
            loop {
                sleep(LOOK_AGAIN).await;
                if let Ok(Ok(page)) = self.metrics.get(LOOK_AGAIN / 2).await
                    && page.defrag_inflight == Some(true)
                    && self.detects_defrag
                {
                    return page.has_leader;
                }
            }
        };
        tokio::select! {
            biased;
            read = self.member.linearizable_read() => {
                read.map_or_else(Reading::Failed, |()| Reading::Answered)
            }
            has_leader = looking => Reading::Defragmenting { has_leader },
        }
    }

    async fn status_within(&self, limit: Duration) -> Option<Status> {
        let asked = timeout(limit, self.status.get(Duration::ZERO)).await;
        asked.ok()?.ok()?.ok()
    }

    async fn leader_commit(&self, status: &Status) -> Option<u64> {
        if status.leader == 0 {
            return None;
        }
        if status.leader == status.id {
            return Some(status.commit);
        }
        let asked = timeout(ASIDE, self.member.leader_commit(status.leader)).await;
        asked.ok()?.ok()
    }

    fn unanswered_for(&self, now: Instant) -> Option<Duration> {
        let since = locked(&self.memory).unanswered_since;
        since.map(|since| now.saturating_duration_since(since))
    }

    fn remember(&self, sent: Instant, reading: &Reading) {
        let now = Instant::now();
        let mut memory = locked(&self.memory);
        memory.last = Some(now);
        match reading {
            Reading::Unanswered(_) => {
                let since = *memory.unanswered_since.get_or_insert(sent);
                locked(&self.freeze).unanswered(since, now);
            }
            Reading::Answered | Reading::Failed(Fault::Denied(_)) => {
                memory.unanswered_since = None;
                locked(&self.freeze).answered(now);
            }
            Reading::Failed(_) | Reading::Defragmenting { .. } => memory.unanswered_since = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unanswered(
        then: Option<u64>,
        now: Option<u64>,
        leader_commit: Option<u64>,
        seconds: u64,
    ) -> Reading {
        Reading::Unanswered(Circumstances {
            applied_then: then,
            applied_now: now,
            leader_commit,
            unanswered_for: Duration::from_secs(seconds),
        })
    }

    #[test]
    fn a_reading_follows_the_table() {
        let ok = "ok";
        let failed = |fault: &Fault| Reading::Failed(fault.clone());
        let denied = Fault::Denied("etcdserver: user name is empty".to_owned());
        let defrag = |has_leader| Reading::Defragmenting { has_leader };
        for (name, reading, expected) in [
            ("answered", Reading::Answered, ok),
            ("denied", failed(&denied), ok),
            ("learner", failed(&Fault::Learner), ok),
            ("no leader", failed(&Fault::NoLeader), "no leader"),
            ("refused", failed(&Fault::Refused), "connection refused"),
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
            let verdict = judge(&reading);
            let words = verdict.map_or_else(|reason| reason.to_string(), |()| ok.to_owned());
            assert!(words.starts_with(expected), "{name}: {words}");
        }
    }
}
