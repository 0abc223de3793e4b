//! The operator: deploys the collectors that the addon asks for, and reports the result in the
//! addon's status.
//!
//! A reconciliation (`reconcile`) reads all `inputs`, computes the `desired` state of each
//! collector and applies its `manifest`. Reconciliations are level-triggered: any change of an
//! input starts a complete one.

mod allowlist;
mod desired;
mod hub_info;
mod input_watch;
mod inputs;
mod manifest;
mod openshift;
mod options;
mod problem;
mod readiness;
mod reconcile;

use std::time::Duration;

use axum::Router;
use kelpie_core::addon::Debounce;
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ClusterClient;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use allowlist::{Allowlist, AllowlistRule};
pub(crate) use inputs::{INPUT_OBJECTS, POD, STATEFUL_SET};
pub(crate) use openshift::{CLUSTER_VERSION, CLUSTER_VERSION_NAME};
pub use options::{OperatorOptions, Placement, PrometheusRef};

use self::input_watch::InputWatch;
use self::openshift::OpenShift;
use self::readiness::ReadinessTracker;
use self::reconcile::{OperatorReconciler, ReconcileOutcome};
use crate::backoff::Backoff;
use crate::confirmed_read::ConfirmedReader;
use crate::context::{AddonOptions, ControllerContext, HEARTBEAT_INTERVAL};
use crate::metrics::{OperatorMetrics, ReconcileResult};
use crate::status_writer::{DROPPED_ROLLOUTS, StatusWriter};

/// The reporting component of Events.
const COMPONENT: &str = "kelpie-addon-operator";
/// Changes within this time are handled by one reconciliation.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// The pauses between failing reconciliations.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A transient problem of a collector that lasts for this long is reported.
const REPORT_AFTER: Duration = Duration::from_mins(10);

/// The result of the last reconciliation, as shown.
#[derive(Clone, Debug, Default)]
struct LastResult {
    /// The failures, or the error that aborted it. `null` before the first.
    shown: Value,
    /// Fields that cannot be read or stored.
    warnings: Vec<String>,
}

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
            context: ControllerContext::new(spoke, COMPONENT, options, registry),
            options: operator,
            metrics: OperatorMetrics::new(registry),
            last: watch::Sender::default(),
        }
    }

    /// Returns the route `GET /debug/state`: the result of the last reconciliation.
    pub fn routes(&self) -> Router {
        let (last, addon) = (self.last.subscribe(), self.context.options.addon.clone());
        self.context.routes(move || {
            let last = last.borrow();
            json!({
                "addon": { "namespace": addon.namespace, "name": addon.name },
                "lastPass": last.shown,
                "warnings": last.warnings,
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
            reader: ConfirmedReader::new(objects.clone()),
            openshift: OpenShift::default(),
            transient: [const { Debounce::new(REPORT_AFTER) }; 2],
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
        let OperatorReconciler {
            objects,
            addon,
            options,
            ..
        } = &self.reconciler;
        let mut inputs = InputWatch::start(objects, addon, options);
        inputs.listed().await;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut next = Instant::now();
        // Changes do not shorten the pause after a failure.
        let mut not_before = next;
        loop {
            heartbeat.beat();
            let next_beat = Instant::now() + HEARTBEAT_INTERVAL;
            tokio::select! {
                biased;
                () = leadership.changed() => next = Instant::now(),
                () = inputs.changed() => {
                    inputs.gather(GATHER_TIME).await;
                    next = next.min(not_before.max(Instant::now()));
                }
                () = sleep_until(next.min(next_beat)) => {}
            }
            let now = Instant::now();
            if now < next {
                continue;
            }
            next = now + self.resync;
            if !leadership.may_decide() {
                ready.ready();
                continue;
            }
            let outcome = self.reconcile().await;
            ready.ready();
            let now = Instant::now();
            let is_clean = outcome
                .as_ref()
                .is_some_and(|outcome| outcome.failures.is_empty());
            if is_clean {
                backoff.reset();
                not_before = now;
            } else {
                let pause = backoff.pause(fastrand::f64());
                next = next.min(now + pause);
                // A change may be the remedy for a definite failure.
                let is_definite = outcome
                    .as_ref()
                    .is_some_and(|outcome| !outcome.is_transient);
                not_before = now + if is_definite { FIRST_PAUSE } else { pause };
            }
            let Some(outcome) = outcome else { continue };
            for (component, object) in &outcome.deployments {
                inputs.set_deployment(*component, object.as_ref());
            }
            next = outcome.requeue_at.map_or(next, |at| next.min(at));
        }
    }

    async fn reconcile(&mut self) -> Option<ReconcileOutcome> {
        let result = self.reconciler.reconcile().await;
        let outcome = result.as_ref().ok();
        self.metrics.reconciled(match outcome {
            None => ReconcileResult::Aborted,
            Some(outcome) if outcome.failures.is_empty() => ReconcileResult::Clean,
            Some(outcome) if outcome.is_transient => ReconcileResult::Retrying,
            Some(_) => ReconcileResult::Failing,
        });
        match result {
            Ok(outcome) => {
                let mut warnings = outcome.spec_problems.clone();
                let drops_rollouts = self.reconciler.writer.drops_rollouts();
                self.metrics.set_ignored(warnings.len(), drops_rollouts);
                warnings.extend(drops_rollouts.then(|| DROPPED_ROLLOUTS.to_owned()));
                if warnings != self.last.borrow().warnings {
                    for warning in &warnings {
                        warn!("{warning}");
                    }
                }
                let shown = json!({ "failures": outcome.failures });
                self.last.send_replace(LastResult { shown, warnings });
                Some(outcome)
            }
            Err(error) => {
                warn!("reconciliation aborted; retrying: {error}");
                let shown = json!({ "error": error.to_string() });
                self.last.send_modify(|last| last.shown = shown);
                None
            }
        }
    }
}
