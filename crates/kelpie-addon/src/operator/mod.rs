//! The operator: deploys the collectors that the addon asks for, and reports the result in the
//! addon's status.
//!
//! A reconciliation (`reconcile`) reads all `inputs`, computes the `desired` state of each
//! collector and applies its `manifest`. Reconciliations are level-triggered: any change of an
//! input starts a complete one.

mod allowlist;
mod desired;
mod hub_info;
mod inputs;
mod manifest;
mod options;
mod readiness;
mod reconcile;

use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use futures_util::{Stream, StreamExt, stream};
use kelpie_core::addon::AddonComponent;
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::objects::{ObjectClient, ObjectKind};
use kelpie_kube::watch::WatchEvent;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use allowlist::{Allowlist, AllowlistRule};
pub(crate) use inputs::{INPUT_OBJECTS, POD, STATEFUL_SET};
pub use options::{OperatorOptions, PrometheusRef};

use self::manifest::deployment_name;
use self::readiness::ReadinessTracker;
use self::reconcile::{OperatorReconciler, ReconcileOutcome};
use crate::addon::ADDON;
use crate::backoff::Backoff;
use crate::context::{AddonOptions, ControllerContext, HEARTBEAT_INTERVAL};
use crate::metrics::OperatorMetrics;
use crate::owned::{DEPLOYMENT, SERVICE};
use crate::status_writer::StatusWriter;

/// The reporting component of Events.
const COMPONENT: &str = "kelpie-addon-operator";
/// Changes within this time are handled by one reconciliation.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The pauses between failing reconciliations.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The failures of the last reconciliation, or the error that aborted it. `None` before the first.
type LastResult = Option<Result<Vec<String>, String>>;

/// The operator, ready to run.
pub struct AddonOperator {
    context: ControllerContext,
    options: OperatorOptions,
    metrics: OperatorMetrics,
    last: watch::Sender<LastResult>,
}

impl AddonOperator {
    /// Creates an operator; [`run`](Self::run) starts it.
    pub fn new(
        spoke: ClusterClient,
        options: AddonOptions,
        operator: OperatorOptions,
        registry: &mut Registry,
    ) -> Self {
        Self {
            context: ControllerContext::new(spoke, COMPONENT, options),
            options: operator,
            metrics: OperatorMetrics::new(registry),
            last: watch::Sender::new(None),
        }
    }

    /// Returns the route `GET /debug/state`: the result of the last reconciliation.
    pub fn routes(&self) -> Router {
        let (last, addon) = (self.last.subscribe(), self.context.options.addon.clone());
        self.context.routes(move || {
            let last = match &*last.borrow() {
                None => Value::Null,
                Some(Ok(failures)) => json!({ "failures": failures }),
                Some(Err(error)) => json!({ "error": error }),
            };
            json!({
                "addon": { "namespace": addon.namespace, "name": addon.name },
                "lastPass": last,
            })
        })
    }

    /// Runs until `shutdown`. `heartbeat` gets a beat in every iteration. `ready` is set after the
    /// first reconciliation, or at once on a standby.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        let objects = self.context.cluster.objects();
        let options = &self.context.options;
        let reconciler = OperatorReconciler {
            writer: StatusWriter::new(objects.clone(), options.addon.clone()),
            addon: options.addon.clone(),
            options: self.options,
            events: self.context.events.clone(),
            leadership: self.context.leadership.clone(),
            readiness: ReadinessTracker::default(),
            objects,
        };
        let mut reconcile_loop = ReconcileLoop {
            reconciler,
            resync: options.resync,
            metrics: self.metrics.clone(),
            last: self.last,
        };
        let work = reconcile_loop.run(heartbeat, ready);
        self.context.run(shutdown, self.metrics.leader, work).await;
    }
}

/// Reconciles after each trigger, at every resync and after failures.
struct ReconcileLoop {
    reconciler: OperatorReconciler,
    resync: Duration,
    metrics: OperatorMetrics,
    last: watch::Sender<LastResult>,
}

impl ReconcileLoop {
    async fn run(&mut self, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let mut leadership = self.reconciler.leadership.clone();
        let mut triggers = self.triggers();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut next = Instant::now();
        loop {
            heartbeat.beat();
            let next_beat = Instant::now() + HEARTBEAT_INTERVAL;
            tokio::select! {
                biased;
                () = leadership.changed() => next = Instant::now(),
                _ = triggers.next() => {
                    sleep(DEBOUNCE).await;
                    next = Instant::now();
                }
                () = sleep_until(next.min(next_beat)) => {}
            }
            if Instant::now() < next {
                continue;
            }
            let now = Instant::now();
            next = now + self.resync;
            if !leadership.may_decide() {
                ready.ready();
                continue;
            }
            let outcome = self.reconcile().await;
            ready.ready();
            match outcome {
                Some(outcome) if outcome.failures.is_empty() => {
                    backoff.reset();
                    next = outcome.requeue_at.map_or(next, |at| next.min(at));
                }
                _ => next = next.min(Instant::now() + backoff.pause(fastrand::f64())),
            }
        }
    }

    async fn reconcile(&mut self) -> Option<ReconcileOutcome> {
        let result = self.reconciler.reconcile().await;
        let outcome = result.as_ref().ok();
        self.metrics
            .reconciled(outcome.map(|outcome| outcome.failures.is_empty()));
        match result {
            Ok(outcome) => {
                self.last.send_replace(Some(Ok(outcome.failures.clone())));
                Some(outcome)
            }
            Err(error) => {
                warn!("reconciliation aborted; retrying: {error}");
                self.last.send_replace(Some(Err(error.to_string())));
                None
            }
        }
    }

    /// Returns a stream with an item for each change of an input.
    fn triggers(&self) -> Pin<Box<dyn Stream<Item = ()> + Send>> {
        let OperatorReconciler {
            objects,
            addon,
            options,
            ..
        } = &self.reconciler;
        let own = addon.namespace.as_str();
        let (platform, uwl) = (&options.platform, &options.uwl);
        let mut watched: Vec<(ObjectKind, &str, &str)> = vec![
            (ADDON, own, &addon.name),
            (SERVICE, &platform.namespace, &platform.name),
            (STATEFUL_SET, &uwl.namespace, &uwl.name),
        ];
        watched.extend(INPUT_OBJECTS.map(|(kind, name)| (kind, own, name)));
        watched.extend(
            AddonComponent::ALL.map(|component| (DEPLOYMENT, own, deployment_name(component))),
        );
        let streams = watched
            .into_iter()
            .map(|(kind, namespace, name)| object_triggers(objects, kind, namespace, name));
        Box::pin(stream::select_all(streams))
    }
}

/// Returns the triggers of one object. Changes of the addon's status are none, because the operator
/// writes it itself.
fn object_triggers(
    objects: &ObjectClient,
    kind: ObjectKind,
    namespace: &str,
    name: &str,
) -> Pin<Box<dyn Stream<Item = ()> + Send>> {
    let mut last = None;
    let mut is_failing = false;
    let events = objects.watch(kind, namespace, Some(name));
    let triggers = events.filter_map(move |event| {
        let trigger = match event {
            WatchEvent::Apply(object) => {
                is_failing = false;
                let version = Some(relevant_version(kind, &object));
                let has_changed = last != version;
                last = version;
                has_changed.then_some(())
            }
            WatchEvent::Delete { .. } => {
                last = None;
                Some(())
            }
            WatchEvent::Init | WatchEvent::InitDone => None,
            WatchEvent::Error(error) => {
                if is_failing {
                    debug!(%error, "the watch still fails");
                } else {
                    warn!("{error}; changes take effect at the next resync");
                }
                is_failing = true;
                None
            }
        };
        std::future::ready(trigger)
    });
    Box::pin(triggers)
}

/// Returns a value that changes when a reconciliation may have to act: with anything but the
/// status, and with the readiness of a Deployment.
fn relevant_version(kind: ObjectKind, object: &Value) -> Value {
    let metadata = &object["metadata"];
    if kind == DEPLOYMENT {
        let ready = readiness::is_ready(object);
        json!([metadata["uid"], metadata["generation"], ready])
    } else if kind == ADDON {
        let is_terminating = metadata["deletionTimestamp"].is_string();
        json!([metadata["uid"], metadata["generation"], is_terminating])
    } else if kind == STATEFUL_SET || kind == SERVICE {
        metadata["uid"].clone()
    } else {
        metadata["resourceVersion"].clone()
    }
}
