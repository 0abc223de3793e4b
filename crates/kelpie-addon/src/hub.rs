//! Replication: the hub's addon gets the spoke's status.
//!
//! A task of its own: the spoke never waits for the hub. It only ever knows the newest status, so
//! that after an outage the hub gets that and nothing else.

use std::time::Duration;

use kelpie_core::addon::{Condition, Status};
use kelpie_kube::objects::{CallError, Cause, Objects};
use kelpie_kube::seed::NoteKind;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::addon::{Addon, AddonRef};
use crate::backoff::Backoff;
use crate::farewell::Farewell;
use crate::link::Link;
use crate::metrics::HubMetrics;
use crate::post::{Say, Voice};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A hub that says when to come back is believed up to this.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// When somebody was faster on the hub.
const AGAIN: usize = 5;

/// What the spoke says, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// `None`: not known yet, or there is no addon.
    pub(crate) status: Option<Status>,
    /// Whether the spoke was read at all.
    pub(crate) is_known: bool,
    /// Grows with every resync: to look again though nothing is new.
    pub(crate) rounds: u64,
}

/// How replication stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not tried yet.
    #[default]
    Unknown,
    /// The hub has what the spoke has.
    Current,
    /// There is no addon of this cluster on the hub.
    Missing,
    /// The hub's addon is being deleted.
    Going,
    /// It failed, for this reason.
    Failing(String),
}

/// What one look at the hub came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Written.
    Written,
    /// It was there already.
    Equal,
    /// Nothing to write it to.
    Missing,
    /// It is being deleted.
    Going,
}

/// Why one look failed.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Link(#[from] kelpie_kube::seed::SeedError),
    #[error(transparent)]
    Call(#[from] CallError),
}

pub(crate) struct Replication {
    pub(crate) link: Link,
    pub(crate) addon: AddonRef,
    pub(crate) news: watch::Receiver<News>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) say: Say,
    pub(crate) voice: Voice,
    pub(crate) metrics: HubMetrics,
    pub(crate) farewell: Farewell,
    pub(crate) dry_run: bool,
}

impl Replication {
    /// Goes on until it is dropped, or the spoke is gone for good.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let news = self.news.borrow_and_update().clone();
            // Who does not act has nothing to say to the hub either; at the next round it may.
            let may = self.say.may_act() || self.dry_run;
            let pause = if news.is_known && may {
                let round = self.round(&news).await;
                self.conclude(round, &mut backoff).await
            } else {
                None
            };
            let rest = async {
                match pause {
                    // What is new waits: the hub is not asked more often because the spoke changes.
                    Some(pause) => sleep(pause).await,
                    None => {
                        tokio::select! {
                            changed = self.news.changed() => {
                                if changed.is_err() {
                                    std::future::pending::<()>().await;
                                }
                            }
                            () = self.say.changed() => {}
                        }
                    }
                }
            };
            rest.await;
        }
    }

    /// What to wait for: a pause, or news.
    async fn conclude(
        &mut self,
        round: Result<Round, Failure>,
        backoff: &mut Backoff,
    ) -> Option<Duration> {
        let (standing, pause) = match round {
            Ok(round) => {
                self.metrics.rounds(round);
                let standing = match round {
                    Round::Written | Round::Equal => Standing::Current,
                    Round::Missing => Standing::Missing,
                    Round::Going => Standing::Going,
                };
                if round == Round::Going {
                    // Until the spoke is clean nothing else would make us look again.
                    (standing, Some(backoff.pause(fastrand::f64())))
                } else {
                    backoff.reset();
                    (standing, None)
                }
            }
            Err(failure) => {
                self.metrics.failed();
                let pause = self.after(&failure, backoff).await;
                (Standing::Failing(failure.to_string()), pause)
            }
        };
        self.tell(&standing);
        self.standing.send_replace(standing);
        pause
    }

    async fn after(&mut self, failure: &Failure, backoff: &mut Backoff) -> Option<Duration> {
        let pause = backoff.pause(fastrand::f64());
        let cause = match failure {
            Failure::Link(_) => return Some(pause),
            Failure::Call(error) => &error.cause,
        };
        match cause {
            // One that asks to be asked again at once would be asked without end.
            Cause::Throttled(Some(after)) if !after.is_zero() => Some((*after).min(LONGEST_WAIT)),
            // The same would be refused again.
            Cause::Invalid(_) => None,
            Cause::Throttled(_) | Cause::Conflict | Cause::NotFound => Some(pause),
            Cause::Unauthorized(_) | Cause::Forbidden(_) | Cause::Unavailable(_) => {
                self.link.renew().await;
                Some(pause)
            }
        }
    }

    /// Once for each change.
    fn tell(&self, standing: &Standing) {
        let before = self.standing.borrow().clone();
        if std::mem::discriminant(&before) == std::mem::discriminant(standing) {
            return;
        }
        let namespace = &self.addon.namespace;
        match standing {
            Standing::Unknown => {}
            Standing::Current => info!(namespace, "the hub has the status of the spoke"),
            Standing::Missing => warn!(
                namespace,
                "there is no addon of this cluster on the hub; it is looked for at every resync"
            ),
            Standing::Going => info!(namespace, "the hub deletes the addon; the spoke is cleaned"),
            Standing::Failing(why) => {
                warn!(namespace, "the hub does not get the status: {why}");
                let message = format!("the hub does not get the status: {why}");
                self.voice
                    .tell(NoteKind::Warning, "HubBehind", "Replicate", message);
            }
        }
    }

    async fn round(&mut self, news: &News) -> Result<Round, Failure> {
        let hub = self.link.objects().await?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(object) = hub.get(&self.addon.place()).await? else {
                return Ok(Round::Missing);
            };
            let theirs = Addon::read(object);
            if theirs.is_going {
                if !self.dry_run {
                    self.farewell.proceed(&hub, &self.addon, &theirs).await?;
                }
                return Ok(Round::Going);
            }
            // A spoke without an addon has nothing to say.
            let Some(ours) = &news.status else {
                return Ok(Round::Equal);
            };
            if is_current(&theirs, ours) {
                return Ok(Round::Equal);
            }
            if self.dry_run {
                info!("dry run: the hub's status would be replaced");
                return Ok(Round::Equal);
            }
            match self.put(&hub, &theirs.with_status(ours)).await {
                Ok(()) => return Ok(Round::Written),
                Err(error) if error.cause == Cause::Conflict && attempts < AGAIN => {}
                Err(error) if error.cause == Cause::NotFound => return Ok(Round::Missing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn put(&self, hub: &Objects, object: &Value) -> Result<(), CallError> {
        let place = self.addon.place();
        hub.replace_status(&place, object).await.map(|_| ())
    }
}

/// Whether a reader of the hub sees what the spoke says. Only what every definition of the kind
/// keeps counts: one that prunes the rest would never be current.
fn is_current(theirs: &Addon, ours: &Status) -> bool {
    let has_list = theirs.object()["status"]["conditions"].is_array();
    let theirs = &theirs.status.conditions;
    let has = |condition: &Condition| theirs.iter().any(|their| their.is_same(condition));
    has_list && theirs.len() == ours.conditions.len() && ours.conditions.iter().all(has)
}
