//! The status controller: components in, standard conditions out, and all of it to the hub.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures_util::{Stream, StreamExt};
use kelpie_core::addon::{Component, Condition, Standard, Status};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::objects::Objects;
use kelpie_kube::seed::{Change, NoteKind, Seed};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::addon::{ADDON, Addon, AddonRef};
use crate::backoff::Backoff;
use crate::farewell::Farewell;
use crate::hub::{News, Replication, Standing};
use crate::link::{HubOptions, Link};
use crate::metrics::StatusMetrics;
use crate::post::{Options, Post, Say, Voice};
use crate::writer::{StatusWriter, WriteError, Written};

/// How Events are signed.
const COMPONENT: &str = "kelpie-addon-status";
/// Between two attempts to write to a spoke that does not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The loop turns at least this often, so that somebody can tell that it does.
const TURN: Duration = Duration::from_secs(10);

/// The status controller, ready to run.
pub struct StatusController {
    post: Post,
    hub: Option<HubOptions>,
    metrics: StatusMetrics,
    news: watch::Sender<News>,
    standing: watch::Sender<Standing>,
}

impl StatusController {
    /// Nothing runs yet. `hub`: where the status goes; `None`: it stays on the spoke.
    pub fn new(
        spoke: Seed,
        options: Options,
        hub: Option<HubOptions>,
        registry: &mut Registry,
    ) -> Self {
        Self {
            post: Post::new(spoke, COMPONENT, options),
            hub,
            metrics: StatusMetrics::new(registry),
            news: watch::Sender::default(),
            standing: watch::Sender::default(),
        }
    }

    /// `GET /debug/state`: what is known of the spoke, and how the hub stands.
    pub fn routes(&self) -> Router {
        let (news, standing) = (self.news.subscribe(), self.standing.subscribe());
        let say = self.post.say();
        let (addon, dry_run) = (self.post.options.addon.clone(), self.post.options.dry_run);
        let hub = self.hub.as_ref().map(|hub| hub.namespace.clone());
        let show = move || {
            let hub = hub.as_ref().map(
                |namespace| json!({ "namespace": namespace, "state": told(&standing.borrow()) }),
            );
            let state = json!({
                "addon": { "namespace": addon.namespace, "name": addon.name },
                "leads": say.may_act(),
                "dryRun": dry_run,
                "spoke": spoke(&news.borrow()),
                "hub": hub,
            });
            std::future::ready(axum::Json(state))
        };
        Router::new().route("/debug/state", get(show))
    }

    /// Runs until `shutdown`. `pulse` beats while it turns; `ready` is ready once the spoke is known.
    pub async fn run(self, shutdown: CancellationToken, pulse: Pulse, ready: ReadyHandle) {
        let (say, voice) = (self.post.say(), self.post.voice.clone());
        let objects = self.post.spoke.objects();
        let options = &self.post.options;
        let mut watcher = Watcher {
            writer: StatusWriter::new(objects.clone(), options.addon.clone()),
            addon: options.addon.clone(),
            resync: options.resync,
            dry_run: options.dry_run,
            say: say.clone(),
            voice: voice.clone(),
            metrics: self.metrics.clone(),
            news: self.news.clone(),
            woken_by: None,
            told: None,
            is_blind: false,
            retry: None,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        };
        let replication = self.hub.map(|hub| Replication {
            link: Link::new(&hub),
            addon: AddonRef {
                namespace: hub.namespace,
                name: options.addon.name.clone(),
            },
            news: self.news.subscribe(),
            standing: self.standing,
            say,
            voice,
            metrics: self.metrics.hub.clone(),
            farewell: Farewell {
                spoke: objects.clone(),
                addon: options.addon.clone(),
            },
            dry_run: options.dry_run,
        });
        let replicate = async {
            match replication {
                Some(replication) => replication.run().await,
                None => std::future::pending().await,
            }
        };
        let work = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = watcher.follow(&objects, pulse, ready) => {}
                () = replicate => {}
            }
        };
        let leader = self.metrics.leader.clone();
        Box::pin(self.post.during(leader, work)).await;
    }
}

fn spoke(news: &News) -> Value {
    let status = news.status.as_ref();
    json!({
        "known": news.is_known,
        "standing": status.and_then(Status::standing).map(Standard::condition),
        "status": status,
    })
}

fn told(standing: &Standing) -> Value {
    match standing {
        Standing::Unknown => json!("unknown"),
        Standing::Current => json!("current"),
        Standing::Missing => json!("missing"),
        Standing::Going => json!("going"),
        Standing::Failing(why) => json!({ "failing": why }),
    }
}

/// What of a status makes us look at it again: never what we write ourselves.
type Wake = [Option<Condition>; 2];

fn wake(status: &Status) -> Wake {
    Component::ALL.map(|component| status.component(component).cloned())
}

/// Follows the spoke's addon.
struct Watcher {
    writer: StatusWriter,
    addon: AddonRef,
    resync: Duration,
    dry_run: bool,
    say: Say,
    voice: Voice,
    metrics: StatusMetrics,
    news: watch::Sender<News>,
    /// The components as they were when they were last aggregated.
    woken_by: Option<Wake>,
    /// What was last told to people.
    told: Option<Standard>,
    is_blind: bool,
    /// When a write that failed is tried again.
    retry: Option<Instant>,
    backoff: Backoff,
}

impl Watcher {
    async fn follow(&mut self, objects: &Objects, pulse: Pulse, ready: ReadyHandle) {
        let changes = objects.watch(ADDON, &self.addon.namespace, Some(&self.addon.name));
        let mut changes = pin!(changes);
        let mut resync = interval(self.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = interval(TURN);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first list comes by itself.
        resync.tick().await;
        loop {
            pulse.beat();
            let retry = self.retry;
            let mut say = self.say.clone();
            tokio::select! {
                change = next(&mut changes) => {
                    if matches!(change, Change::Synced) {
                        ready.ready();
                    }
                    self.learn(change).await;
                }
                _ = resync.tick() => {
                    self.settle().await;
                    self.news.send_modify(|news| news.rounds += 1);
                }
                () = until(retry) => self.settle().await,
                () = say.changed() => {
                    self.say = say;
                    self.settle().await;
                }
                _ = turn.tick() => {}
            }
        }
    }

    async fn learn(&mut self, change: Change<Value>) {
        match change {
            Change::Applied(object) => {
                self.is_blind = false;
                let Addon { uid, status, .. } = Addon::read(object);
                self.voice.know(&uid);
                let woken_by = wake(&status);
                let is_news = self.woken_by.as_ref() != Some(&woken_by);
                self.know(Some(status));
                if is_news {
                    self.woken_by = Some(woken_by);
                    self.settle().await;
                }
            }
            Change::Deleted { .. } => self.know(None),
            Change::Restarted => {
                // Whoever is not in the list is gone; it is applied before the list is complete.
                self.news.send_modify(|news| news.is_known = false);
            }
            Change::Synced => {
                let is_known = self.news.borrow().is_known;
                if !is_known {
                    self.know(None);
                }
            }
            Change::Failed(error) => {
                self.metrics.watch_failures.inc();
                if self.is_blind {
                    debug!(%error, "the spoke still cannot be followed");
                } else {
                    warn!("{error}");
                }
                self.is_blind = true;
            }
        }
    }

    fn know(&mut self, status: Option<Status>) {
        self.metrics.show(status.as_ref());
        let standing = status.as_ref().and_then(Status::standing);
        if let Some(standing) = standing.filter(|standing| self.told != Some(*standing)) {
            self.tell(standing, status.as_ref());
        }
        if status.is_none() {
            self.woken_by = None;
        }
        self.news.send_modify(|news| {
            news.status = status;
            news.is_known = true;
        });
    }

    fn tell(&mut self, standing: Standard, status: Option<&Status>) {
        let aggregate = status.and_then(Status::aggregate);
        let message = aggregate.map(|aggregate| aggregate.message);
        let message = message.unwrap_or_default();
        info!("the addon is {standing}: {message}");
        // What was so before this process began is no news.
        if self.told.replace(standing).is_some() && self.say.may_act() {
            let kind = match standing {
                Standard::Degraded => NoteKind::Warning,
                _ => NoteKind::Normal,
            };
            let reason = standing.condition();
            self.voice.tell(kind, reason, "Aggregate", message);
        }
    }

    /// Makes the standard conditions fit the components.
    async fn settle(&mut self) {
        self.retry = None;
        if self.dry_run {
            self.rehearse();
            return;
        }
        if !self.say.may_act() {
            return;
        }
        let written = self.writer.write(None, |status, now| {
            status.settle(now);
            Ok(())
        });
        let written = written.await;
        self.metrics.settled(&written);
        match written {
            Ok(Written::Changed) => {
                debug!("the standard conditions were written");
                self.backoff.reset();
            }
            Ok(Written::Unchanged) => self.backoff.reset(),
            Err(WriteError::Absent { .. }) => {}
            Err(error) => {
                warn!("the status cannot be written: {error}");
                let pause = self.backoff.pause(fastrand::f64());
                self.retry = Some(Instant::now() + pause);
            }
        }
    }

    fn rehearse(&self) {
        let news = self.news.borrow();
        let Some(status) = &news.status else { return };
        if let Some(aggregate) = status.aggregate()
            && status.standing() != Some(aggregate.standard)
        {
            info!("dry run: the addon would be {}", aggregate.standard);
        }
    }
}

/// The stream has no end.
async fn next(changes: &mut (impl Stream<Item = Change<Value>> + Unpin)) -> Change<Value> {
    match changes.next().await {
        Some(change) => change,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
