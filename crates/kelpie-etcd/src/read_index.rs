//! Can the member get a read index? The call with its circumstances, and what to make of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_health::{Reason, Shared, Verdict};
use tokio::time::{Instant, sleep, timeout};

use crate::calls::lock;
use crate::freeze::Freeze;
use crate::{Fault, Member, Sample, Status, Version};

/// Slow is not unready: a call may take this long before its circumstances are judged. Well below
/// the 5 s for which readyz repeats the last result, so that an excuse comes in time.
const PATIENCE: Duration = Duration::from_secs(3);

/// A first call that is out for this long has its circumstances noted; later ones of the same
/// episode at once.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Asking the leader, or the member itself, on the side.
const ASIDE: Duration = Duration::from_secs(1);

/// Where the leader cannot be asked, progress excuses for this long.
const BLIND: Duration = Duration::from_secs(30);

/// Between two looks whether a defragmentation holds the store.
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
        Reading::Answered | Reading::Failed(Fault::Denied(_) | Fault::Learner) => Ok(()),
        Reading::Failed(fault) => Err(Reason::of(fault)),
        Reading::Defragmenting {
            has_leader: Some(true),
        } => Ok(()),
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

/// All that the call needs.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) member: Arc<dyn Member>,
    pub(crate) status: Shared<Result<Status, Fault>>,
    pub(crate) metrics: Shared<Result<Sample, Fault>>,
    pub(crate) freeze: Arc<Mutex<Freeze>>,
    /// Since when no call has been answered.
    pub(crate) episode: Arc<Mutex<Option<Instant>>>,
    pub(crate) fresh: Duration,
    pub(crate) detects_defrag: bool,
}

impl Call {
    pub(crate) async fn make(self) -> Reading {
        let sent = Instant::now();
        let troubled = self.unanswered_for(sent).is_some();
        let mut seen = Circumstances::default();
        let asking = async {
            let version = self.version().await?;
            if version.has_linearizable_member_list() {
                let answer = self.member.read_index().await;
                return Ok(answer.map_or_else(Reading::Failed, |()| Reading::Answered));
            }
            Ok(self.with_the_store().await)
        };
        let noting = async {
            if !troubled {
                sleep(NOTE_AFTER).await;
            }
            let status = self.status_aside().await;
            seen.applied_then = status.as_ref().map(|status| status.applied);
            if let Some(status) = status {
                seen.leader_commit = self.leader_commit(&status).await;
            }
            // The rest of the patience is the asking's.
            std::future::pending::<()>().await;
        };
        let within = timeout(PATIENCE, async {
            tokio::select! {
                biased;
                reading = asking => Some(reading),
                () = noting => None,
            }
        });
        let reading = match within.await {
            Ok(Some(Ok(reading))) => reading,
            Ok(Some(Err(fault))) => Reading::Failed(fault),
            Ok(None) | Err(_) => {
                seen.applied_now = self.status_aside().await.map(|status| status.applied);
                let now = Instant::now();
                seen.unanswered_for = self.unanswered_for(now).unwrap_or(now - sent);
                Reading::Unanswered(seen)
            }
        };
        self.remember(sent, &reading);
        reading
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

    async fn status_aside(&self) -> Option<Status> {
        let asked = timeout(ASIDE, self.status.get(Duration::ZERO)).await;
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
        let since = *self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| now.saturating_duration_since(since))
    }

    fn remember(&self, sent: Instant, reading: &Reading) {
        let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        match reading {
            Reading::Unanswered(_) => {
                episode.get_or_insert(sent);
                lock(&self.freeze).unanswered(Instant::now());
            }
            Reading::Answered | Reading::Failed(Fault::Denied(_)) => {
                *episode = None;
                lock(&self.freeze).answered(Instant::now());
            }
            Reading::Failed(_) | Reading::Defragmenting { .. } => *episode = None,
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
