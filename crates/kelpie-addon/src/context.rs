//! The base of the addon's controllers: a client, leader election and Events.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_kube::client::ClusterClient;
use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};
use kelpie_kube::leader::{Leadership, ReplicaRole};
use kelpie_kube::replica::Replica;
use kelpie_runtime::watch::Receiver;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::addon::{ADDON, AddonRef};

/// Options that all controllers of the addon have.
#[derive(Clone, Debug)]
pub struct AddonOptions {
    /// The addon to work on.
    pub addon: AddonRef,
    /// Leader election, or the role of a single replica.
    pub role: ReplicaRole,
    /// The reporting instance of Events.
    pub identity: String,
    /// The interval of full reconciliations, which run even if nothing changed.
    pub resync: Duration,
    /// Decide and log, but write nothing.
    pub dry_run: bool,
}

/// The client, options and election of a controller.
pub(crate) struct ControllerContext {
    pub(crate) cluster: ClusterClient,
    pub(crate) options: AddonOptions,
    pub(crate) events: AddonEventRecorder,
    replica: Replica,
}

/// Publishes Events about the addon. Clones share the recorder.
#[derive(Clone)]
pub(crate) struct AddonEventRecorder {
    /// `None` in a dry run.
    recorder: Option<EventRecorder>,
    addon: AddonRef,
    /// The UID of the addon when it was last read. `kubectl describe` selects Events by it.
    uid: Arc<Mutex<Option<String>>>,
}

/// Tells whether this replica is the leader. Clones follow the same election.
#[derive(Clone)]
pub(crate) struct LeadershipWatch(Receiver<Leadership>);

impl ControllerContext {
    /// Creates the context. `component` is the reporting component of Events.
    pub(crate) fn new(cluster: ClusterClient, component: &str, options: AddonOptions) -> Self {
        let events = || cluster.events(component, &options.identity);
        let replica = Replica::new(&cluster, options.role.clone(), events);
        Self {
            events: AddonEventRecorder {
                recorder: replica.events().cloned(),
                addon: options.addon.clone(),
                uid: Arc::default(),
            },
            cluster,
            options,
            replica,
        }
    }

    pub(crate) fn leadership(&self) -> LeadershipWatch {
        LeadershipWatch(self.replica.leadership())
    }

    /// Runs the election and the delivery of Events until `work` ends, then releases the Lease.
    pub(crate) async fn run(self, leader: Gauge, work: impl Future<Output = ()>) {
        self.replica.run(leader, |_| work).await;
    }
}

impl LeadershipWatch {
    /// Returns true if this replica may write now. To be called right before each write.
    pub(crate) fn may_act(&self) -> bool {
        self.0.borrow().may_act(Instant::now())
    }

    /// Completes when the leadership changes. Never completes without an election.
    pub(crate) async fn changed(&mut self) {
        self.0.changed().await;
    }
}

impl AddonEventRecorder {
    /// Sets the UID of the addon, after it was read.
    pub(crate) fn set_uid(&self, uid: &str) {
        let mut known = self.uid.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != Some(uid) {
            *known = Some(uid.to_owned());
        }
    }

    pub(crate) fn publish(
        &self,
        kind: EventType,
        reason: &'static str,
        action: &'static str,
        message: String,
    ) {
        if let Some(recorder) = &self.recorder {
            let uid = self.uid.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.publish(NewEvent {
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
