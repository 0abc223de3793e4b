//! The status controller: aggregates the components' conditions into the standard conditions, and
//! replicates the status to the hub.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use futures_util::StreamExt;
use kelpie_core::addon::{AddonComponent, AddonStatus, Condition, StandardCondition};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::events::EventType;
use kelpie_kube::objects::ObjectClient;
use kelpie_kube::watch::WatchEvent;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::addon::{ADDON, AddonRef, ObservabilityAddon};
use crate::addon_lease::AddonLease;
use crate::backoff::Backoff;
use crate::context::{
    AddonEventRecorder, AddonOptions, ControllerContext, HEARTBEAT_INTERVAL, LeadershipWatch,
};
use crate::finalizer::SpokeCleanup;
use crate::hub_client::{HubClient, HubOptions};
use crate::hub_replication::{HubReplication, ReplicationState, SpokeState};
use crate::metrics::StatusMetrics;
use crate::status_writer::{StatusWriter, WriteError, WriteOutcome};

/// The reporting component of Events.
const COMPONENT: &str = "kelpie-addon-status";
/// The pauses between two attempts to write to a spoke that does not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The status controller, ready to run.
pub struct StatusController {
    context: ControllerContext,
    hub: Option<HubOptions>,
    metrics: StatusMetrics,
    spoke: watch::Sender<SpokeState>,
    replication: watch::Sender<ReplicationState>,
}

impl StatusController {
    /// Creates a controller; [`run`](Self::run) starts it. Without a `hub`, the status is not
    /// replicated.
    pub fn new(
        spoke: ClusterClient,
        options: AddonOptions,
        hub: Option<HubOptions>,
        registry: &mut Registry,
    ) -> Self {
        Self {
            context: ControllerContext::new(spoke, COMPONENT, options, registry),
            hub,
            metrics: StatusMetrics::new(registry),
            spoke: watch::Sender::default(),
            replication: watch::Sender::default(),
        }
    }

    /// Returns the route `GET /debug/state`: the spoke's status and the state of the replication.
    pub fn routes(&self) -> Router {
        let (spoke, replication) = (self.spoke.subscribe(), self.replication.subscribe());
        let addon = self.context.options.addon.clone();
        let hub = self.hub.as_ref().map(|hub| hub.namespace.clone());
        self.context.routes(move || {
            let hub = hub
                .as_ref()
                .map(|namespace| json!({ "namespace": namespace, "state": *replication.borrow() }));
            json!({
                "addon": { "namespace": addon.namespace, "name": addon.name },
                "spoke": spoke_json(&spoke.borrow()),
                "hub": hub,
            })
        })
    }

    /// Runs until `shutdown`. `heartbeat` gets a beat in every iteration. `ready` is set once the
    /// spoke's addon was listed.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        let (leadership, events) = (self.context.leadership.clone(), self.context.events.clone());
        let objects = self.context.cluster.objects();
        let options = &self.context.options;
        let mut reconciler = StatusReconciler {
            writer: StatusWriter::new(objects.clone(), options.addon.clone()),
            addon: options.addon.clone(),
            resync: options.resync,
            leadership: leadership.clone(),
            events: events.clone(),
            metrics: self.metrics.clone(),
            spoke: self.spoke.clone(),
            reconciled: None,
            announced: None,
            is_watch_failing: false,
            retry: None,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        };
        let replication = self.hub.map(|hub| HubReplication {
            client: HubClient::new(hub.connect),
            addon: AddonRef {
                namespace: hub.namespace,
                name: options.addon.name.clone(),
            },
            spoke: self.spoke.subscribe(),
            state: self.replication,
            leadership,
            events,
            metrics: self.metrics.hub.clone(),
            cleanup: SpokeCleanup {
                spoke: objects.clone(),
                addon: options.addon.clone(),
            },
        });
        let replicate = async {
            match replication {
                Some(replication) => replication.run().await,
                None => std::future::pending().await,
            }
        };
        let lease = AddonLease {
            objects: objects.clone(),
            addon: options.addon.clone(),
            leadership: self.context.leadership.clone(),
        };
        let work = async {
            let reconcile = reconciler.run(&objects, heartbeat, ready);
            tokio::join!(reconcile, replicate, lease.run());
        };
        self.context.run(shutdown, self.metrics.leader, work).await;
    }
}

fn spoke_json(spoke: &SpokeState) -> Value {
    let status = spoke.status.as_ref();
    let standard = status.and_then(AddonStatus::standard_condition);
    json!({
        "known": spoke.is_known,
        "standing": standard.map(StandardCondition::condition_type),
        "status": status,
    })
}

/// The part of a status whose changes trigger a reconciliation. The controller never writes it
/// itself.
type ComponentConditions = [Option<Condition>; 2];

fn component_conditions(status: &AddonStatus) -> ComponentConditions {
    AddonComponent::ALL.map(|component| status.component(component).cloned())
}

/// Watches the spoke's addon and reconciles its standard conditions.
struct StatusReconciler {
    writer: StatusWriter,
    addon: AddonRef,
    resync: Duration,
    leadership: LeadershipWatch,
    events: AddonEventRecorder,
    metrics: StatusMetrics,
    spoke: watch::Sender<SpokeState>,
    /// The component conditions that triggered the last reconciliation.
    reconciled: Option<ComponentConditions>,
    /// The standard condition that was last logged.
    announced: Option<StandardCondition>,
    /// The last watch failed. Further failures are logged at debug level only.
    is_watch_failing: bool,
    /// The time of the next attempt, after a failed write.
    retry: Option<Instant>,
    backoff: Backoff,
}

impl StatusReconciler {
    async fn run(&mut self, objects: &ObjectClient, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let events = objects.watch(ADDON, &self.addon.namespace, Some(&self.addon.name));
        let mut events = pin!(events);
        let mut resync = interval(self.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The initial list makes the first, immediate tick unnecessary.
        resync.tick().await;
        loop {
            heartbeat.beat();
            let retry = self.retry;
            let mut leadership = self.leadership.clone();
            tokio::select! {
                biased;
                () = leadership.changed() => {
                    self.leadership = leadership;
                    self.reconcile().await;
                }
                () = until(retry) => self.reconcile().await,
                _ = resync.tick() => {
                    self.reconcile().await;
                    self.spoke.send_modify(|spoke| spoke.resyncs += 1);
                }
                Some(event) = events.next() => {
                    if matches!(event, WatchEvent::InitDone) {
                        ready.ready();
                    }
                    self.handle_event(event).await;
                }
                () = sleep(HEARTBEAT_INTERVAL) => {}
            }
        }
    }

    async fn handle_event(&mut self, event: WatchEvent<Value>) {
        match event {
            WatchEvent::Apply(object) => {
                self.is_watch_failing = false;
                let ObservabilityAddon { uid, status, .. } = ObservabilityAddon::read(object);
                self.events.set_uid(&uid);
                let components = component_conditions(&status);
                let has_changed = self.reconciled.as_ref() != Some(&components);
                self.set_status(Some(status));
                if has_changed {
                    self.reconciled = Some(components);
                    self.reconcile().await;
                }
            }
            WatchEvent::Delete { .. } => self.set_status(None),
            WatchEvent::Init => {
                // If the addon still exists, it is applied before the list is complete.
                self.spoke.send_modify(|spoke| spoke.is_known = false);
            }
            WatchEvent::InitDone => {
                let is_known = self.spoke.borrow().is_known;
                if !is_known {
                    self.set_status(None);
                }
            }
            WatchEvent::Error(error) => {
                self.metrics.watch_failures.inc();
                if self.is_watch_failing {
                    debug!(%error, "the watch on the addon still fails");
                } else {
                    warn!("{error}");
                }
                self.is_watch_failing = true;
            }
        }
    }

    /// Publishes the addon's status, or `None` if there is no addon.
    fn set_status(&mut self, status: Option<AddonStatus>) {
        self.metrics.set_condition(status.as_ref());
        let standard = status.as_ref().and_then(AddonStatus::standard_condition);
        if let Some(standard) = standard.filter(|standard| self.announced != Some(*standard)) {
            self.announce(standard, status.as_ref());
        }
        if status.is_none() {
            self.reconciled = None;
        }
        self.spoke.send_modify(|spoke| {
            spoke.status = status;
            spoke.is_known = true;
        });
    }

    /// Logs the standard condition that became True. The leader also publishes an Event.
    fn announce(&mut self, standard: StandardCondition, status: Option<&AddonStatus>) {
        let aggregate = status.and_then(AddonStatus::aggregate);
        let message = aggregate.map(|aggregate| aggregate.message);
        let message = message.unwrap_or_default();
        info!("the addon is {standard}: {message}");
        // The state at the start of the process is not a change, so it gets no Event.
        if self.announced.replace(standard).is_some() && self.leadership.may_act() {
            let kind = match standard {
                StandardCondition::Degraded => EventType::Warning,
                _ => EventType::Normal,
            };
            let reason = standard.condition_type();
            self.events.publish(kind, reason, "Aggregate", message);
        }
    }

    /// Writes the standard conditions if they do not match the components' conditions.
    async fn reconcile(&mut self) {
        self.retry = None;
        if self.leadership.is_dry_run {
            self.log_dry_run();
            return;
        }
        if !self.leadership.may_act() {
            return;
        }
        let written = self.writer.write(None, |status, now| {
            status.set_standard_conditions(now);
            Ok(())
        });
        let written = written.await;
        self.metrics.reconciled(&written);
        match written {
            Ok(WriteOutcome::Changed) => {
                debug!("wrote the standard conditions");
                self.backoff.reset();
            }
            Ok(WriteOutcome::Unchanged) => self.backoff.reset(),
            // The watch reports a deletion.
            Err(WriteError::Absent(_)) if self.spoke.borrow().status.is_none() => {}
            Err(error) => {
                warn!("cannot write the status; retrying: {error}");
                let pause = self.backoff.pause(fastrand::f64());
                self.retry = Some(Instant::now() + pause);
            }
        }
    }

    fn log_dry_run(&self) {
        let spoke = self.spoke.borrow();
        let Some(status) = &spoke.status else { return };
        if let Some(aggregate) = status.aggregate()
            && status.standard_condition() != Some(aggregate.standard)
        {
            info!("dry run: the addon would be {}", aggregate.standard);
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
