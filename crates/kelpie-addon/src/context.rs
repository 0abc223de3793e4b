//! The base of the addon's controllers: a client, leader election, Events and the state page.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};
use kelpie_kube::leader::{Leadership, ReplicaRole};
use kelpie_kube::replica::Replica;
use kelpie_runtime::watch::Receiver;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::addon::{ADDON, AddonRef};

/// The loop of a controller wakes at least this often, to send its heartbeat.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Options that all controllers of the addon have.
#[derive(Clone, Debug)]
pub struct AddonOptions {
    /// The addon to work on.
    pub addon: AddonRef,
    /// Leader election, or the role of a single replica. An observer decides and logs, but writes
    /// nothing.
    pub role: ReplicaRole,
    /// The reporting instance of Events.
    pub identity: String,
    /// The interval of full reconciliations, which run even if nothing changed.
    pub resync: Duration,
}

/// The client, options and election of a controller.
pub(crate) struct ControllerContext {
    pub(crate) cluster: ClusterClient,
    pub(crate) options: AddonOptions,
    pub(crate) events: AddonEventRecorder,
    pub(crate) leadership: LeadershipWatch,
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
pub(crate) struct LeadershipWatch {
    leadership: Receiver<Leadership>,
    /// This replica decides and logs, but never writes.
    pub(crate) is_dry_run: bool,
}

impl ControllerContext {
    /// Creates the context. `component` is the reporting component of Events.
    pub(crate) fn new(
        cluster: ClusterClient,
        component: &str,
        options: AddonOptions,
        registry: &mut Registry,
    ) -> Self {
        let events = || cluster.events(component, &options.identity);
        let replica = Replica::new(&cluster, options.role.clone(), events);
        replica.register_election(registry);
        Self {
            events: AddonEventRecorder {
                recorder: replica.events().cloned(),
                addon: options.addon.clone(),
                uid: Arc::default(),
            },
            leadership: LeadershipWatch {
                leadership: replica.leadership(),
                is_dry_run: options.role == ReplicaRole::Observer,
            },
            cluster,
            options,
            replica,
        }
    }

    /// Returns the route `GET /debug/state`. It shows the object that `state` returns, and whether
    /// this replica is the leader.
    pub(crate) fn routes(
        &self,
        state: impl Fn() -> Value + Clone + Send + Sync + 'static,
    ) -> Router {
        let leadership = self.leadership.clone();
        let show = move || {
            let mut state = state();
            state["leads"] = leadership.may_act().into();
            state["dryRun"] = leadership.is_dry_run.into();
            std::future::ready(axum::Json(state))
        };
        Router::new().route("/debug/state", get(show))
    }

    /// Runs `work`, the election and the delivery of Events until `shutdown`, then releases the
    /// Lease.
    pub(crate) fn run(
        self,
        shutdown: CancellationToken,
        leader: Gauge,
        work: impl Future<Output = ()>,
    ) -> impl Future<Output = ()> {
        let work = async move {
            shutdown.run_until_cancelled(work).await;
        };
        // It is large.
        Box::pin(self.replica.run(leader, |_| work))
    }
}

impl LeadershipWatch {
    /// Returns true if this replica may write now. To be called right before each write.
    pub(crate) fn may_act(&self) -> bool {
        self.leadership.borrow().may_act(Instant::now())
    }

    /// Returns true if this replica decides now: as the leader, or in a dry run.
    pub(crate) fn may_decide(&self) -> bool {
        self.is_dry_run || self.may_act()
    }

    /// Completes when the leadership changes. Never completes without an election.
    pub(crate) async fn changed(&mut self) {
        self.leadership.changed().await;
    }
}

impl AddonEventRecorder {
    /// Sets the UID of the addon, after it was read.
    pub(crate) fn set_uid(&self, uid: &str) {
        *self.uid.lock() = Some(uid.to_owned());
    }

    pub(crate) fn publish(
        &self,
        kind: EventType,
        reason: &'static str,
        action: &'static str,
        message: String,
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.publish(NewEvent {
                about: ObjectRef {
                    api_version: ADDON.api_version(),
                    kind: ADDON.kind.to_owned(),
                    namespace: self.addon.namespace.clone(),
                    name: self.addon.name.clone(),
                    uid: self.uid.lock().clone(),
                },
                kind,
                reason,
                message,
                action,
            });
        }
    }
}
