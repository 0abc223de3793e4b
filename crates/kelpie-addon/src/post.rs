//! What both controllers of the addon run on: a spoke, a say in who acts, and Events.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_bell::Listener;
use kelpie_kube::leader::{Candidacy, Leadership, Part};
use kelpie_kube::seed::{Events, Note, NoteKind, ObjectRef, Seed};
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::addon::{ADDON, AddonRef};

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
    candidacy: Candidacy,
}

/// Tells what happened to the addon, as Events. Clones are the same.
#[derive(Clone)]
pub(crate) struct Voice {
    /// `None`: nothing is written to the spoke.
    events: Option<Events>,
    addon: AddonRef,
    /// That of the addon as it was last seen: `kubectl describe` asks for Events by it.
    uid: Arc<Mutex<Option<String>>>,
}

/// Whether a write may be made. Clones are the same.
#[derive(Clone)]
pub(crate) struct Say(Listener<Leadership>);

impl Post {
    /// `component` signs the Events.
    pub(crate) fn new(spoke: Seed, component: &str, options: Options) -> Self {
        let candidacy = options.part.clone().play(&spoke);
        let events = (!options.dry_run).then(|| spoke.events(component, &options.identity));
        Self {
            voice: Voice {
                events,
                addon: options.addon.clone(),
                uid: Arc::default(),
            },
            spoke,
            options,
            candidacy,
        }
    }

    pub(crate) fn say(&self) -> Say {
        Say(self.candidacy.leadership())
    }

    /// Does the work while the election and the Events go on; afterwards the Lease is given back.
    pub(crate) async fn during(self, leader: Gauge, work: impl Future<Output = ()>) {
        let office = self.candidacy.begin(move |leads| {
            leader.set(leads.into());
        });
        if let Some(events) = self.voice.events {
            office.beside(|over| events.run(over));
        }
        work.await;
        office.leave().await;
    }
}

impl Say {
    /// To be asked right before each write.
    pub(crate) fn may_act(&self) -> bool {
        self.0.peek().may_act(Instant::now())
    }

    /// Resolves when that changes; never, if it cannot.
    pub(crate) async fn changed(&mut self) {
        self.0.heard().await;
    }
}

impl Voice {
    /// The addon was seen, and this is its uid.
    pub(crate) fn know(&self, uid: &str) {
        let mut known = self.uid.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != Some(uid) {
            *known = Some(uid.to_owned());
        }
    }

    pub(crate) fn tell(
        &self,
        kind: NoteKind,
        reason: &'static str,
        action: &'static str,
        message: String,
    ) {
        if let Some(events) = &self.events {
            let uid = self.uid.lock().unwrap_or_else(PoisonError::into_inner);
            events.publish(Note {
                about: ObjectRef {
                    api_version: ADDON.api_version(),
                    kind: ADDON.kind.to_owned(),
                    namespace: self.addon.namespace.clone(),
                    name: self.addon.name.clone(),
                    uid: uid.clone(),
                },
                kind,
                reason,
                message,
                action,
            });
        }
    }
}
