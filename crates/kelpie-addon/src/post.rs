//! What both controllers of the addon run on: a spoke, a say in who acts, and Events.

use std::time::Duration;

use futures_util::future::BoxFuture;
use kelpie_kube::leader::{Leadership, Part, announce};
use kelpie_kube::seed::{Events, Note, NoteKind, ObjectRef, Seed};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::addon::{ADDON, AddonRef};

/// The Lease gets this long to be given back, and Events to be posted.
const HANDOVER: Duration = Duration::from_secs(2);

/// What the command line says about a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which addon.
    pub addon: AddonRef,
    /// Whether this replica acts.
    pub part: Part,
    /// How this process signs its Events.
    pub identity: String,
    /// How often everything is looked at, whether anything happened or not.
    pub resync: Duration,
    /// Decide and tell everything, write nothing.
    pub dry_run: bool,
}

/// A replica's place on a spoke.
pub(crate) struct Post {
    pub(crate) spoke: Seed,
    pub(crate) options: Options,
    pub(crate) voice: Voice,
    leadership: watch::Receiver<Leadership>,
    election: BoxFuture<'static, ()>,
    election_over: CancellationToken,
}

/// Tells what happened to the addon, as Events. Clones are the same.
#[derive(Clone)]
pub(crate) struct Voice {
    /// `None`: nothing is written to the spoke.
    events: Option<Events>,
    addon: AddonRef,
}

/// Whether a write may be made. Clones are the same.
#[derive(Clone)]
pub(crate) struct Say(watch::Receiver<Leadership>);

impl Post {
    /// `component` signs the Events.
    pub(crate) fn new(spoke: Seed, component: &str, options: Options) -> Self {
        let election_over = CancellationToken::new();
        let part = options.part.clone();
        let (leadership, election) = part.play(&spoke, election_over.clone());
        let events = (!options.dry_run).then(|| spoke.events(component, &options.identity));
        Self {
            voice: Voice {
                events,
                addon: options.addon.clone(),
            },
            spoke,
            options,
            leadership,
            election,
            election_over,
        }
    }

    pub(crate) fn say(&self) -> Say {
        Say(self.leadership.clone())
    }

    /// Does the work while the election and the Events go on; afterwards the Lease is given back.
    pub(crate) async fn during(self, leader: Gauge, work: impl Future<Output = ()>) {
        let background = TaskTracker::new();
        let over = CancellationToken::new();
        let election = background.spawn(self.election);
        let tell = move |leads: bool| {
            leader.set(leads.into());
        };
        background.spawn(announce(self.leadership, tell));
        if let Some(events) = self.voice.events {
            background.spawn(events.run(over.clone()));
        }
        work.await;
        self.election_over.cancel();
        let _ = timeout(HANDOVER, election).await;
        over.cancel();
        background.close();
        let _ = timeout(HANDOVER, background.wait()).await;
    }
}

impl Say {
    /// To be asked right before each write.
    pub(crate) fn may_act(&self) -> bool {
        self.0.borrow().may_act(Instant::now())
    }

    /// Resolves when that changes; never, if it cannot.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Voice {
    pub(crate) fn tell(
        &self,
        kind: NoteKind,
        reason: &'static str,
        action: &'static str,
        message: String,
    ) {
        if let Some(events) = &self.events {
            events.publish(Note {
                about: ObjectRef {
                    api_version: ADDON.api_version(),
                    kind: ADDON.kind.to_owned(),
                    namespace: self.addon.namespace.clone(),
                    name: self.addon.name.clone(),
                    uid: None,
                },
                kind,
                reason,
                message,
                action,
            });
        }
    }
}
