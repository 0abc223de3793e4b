//! A reconciliation: read the inputs, write the conditions that have to precede the change, apply
//! it, write the result.

use std::time::Duration;

use kelpie_core::addon::{
    AddonComponent, AddonStatus, Condition, ConditionReason, Debounce, ForwardOutcome,
    OperatorUpdate, TransitionError,
};
use kelpie_kube::client::ApiError;
use kelpie_kube::events::EventType;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::Instant;
use tracing::{info, warn};

use super::desired::DesiredState;
use super::inputs::{ExistingObjects, ForwardingInputs, POD, ReconcileInputs, monitoring_kinds};
use super::manifest::pod_selector;
use super::openshift::OpenShift;
use super::options::OperatorOptions;
use super::problem::Problem;
use super::readiness::{
    FIRST_READY_WITHIN, NOT_READY, ReadinessTracker, RolloutReadiness, is_ready, waiting_reason,
};
use crate::addon::{AddonRef, ObservabilityAddon};
use crate::confirmed_read::ConfirmedReader;
use crate::context::{AddonEventRecorder, LeadershipWatch};
use crate::owned::{
    DEPLOYMENT, FIELD_MANAGER, MANAGED_BY, OWNED_KINDS, SERVICE, STOP_MANAGER, is_owned_by,
    object_name, read_owned,
};
use crate::status_writer::{StatusWriter, WriteError, WriteOutcome};

/// The interval at which terminating pods are polled. Pods are not watched.
const POD_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reconciles the collectors with the addon.
pub(super) struct OperatorReconciler {
    pub(super) objects: ObjectClient,
    pub(super) reader: ConfirmedReader,
    pub(super) writer: StatusWriter,
    pub(super) addon: AddonRef,
    pub(super) options: OperatorOptions,
    pub(super) events: AddonEventRecorder,
    pub(super) leadership: LeadershipWatch,
    pub(super) readiness: ReadinessTracker,
    pub(super) openshift: OpenShift,
    /// Transient problems of each collector, which are reported if they last.
    pub(super) transient: [Debounce; 2],
}

/// The outcome of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReconcileOutcome {
    /// The time of the next reconciliation, if it has to run without a change.
    pub(super) requeue_at: Option<Instant>,
    /// A message for each component that failed.
    pub(super) failures: Vec<String>,
    /// One of the failures may pass without a change of an input.
    pub(super) is_transient: bool,
    /// A message for each field of the spec that cannot be read.
    pub(super) spec_problems: Vec<String>,
    /// The Deployments as this reconciliation left them; `None` if it deleted them.
    pub(super) deployments: Vec<(AddonComponent, Option<Value>)>,
}

impl ReconcileOutcome {
    fn requeue_no_later_than(&mut self, at: Instant) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn fail(&mut self, component: AddonComponent, problem: &Problem) {
        let failure = format!("{component}: {}", problem.message());
        warn!("{failure}");
        self.failures.push(failure);
        self.is_transient |= matches!(problem, Problem::Transient(_));
    }
}

/// The reason why a reconciliation was aborted.
#[derive(Debug, Error)]
pub(super) enum ReconcileError {
    #[error(transparent)]
    Call(#[from] ObjectError),
    #[error("cannot write the status: {0}")]
    Write(#[from] WriteError),
    #[error("this replica is no longer the leader")]
    LeadershipLost,
}

/// A change of the status.
pub(super) enum StatusUpdate {
    /// Sets a component's condition.
    Update(OperatorUpdate),
    /// Removes a component's condition.
    Remove(AddonComponent),
}

impl OperatorReconciler {
    pub(super) async fn reconcile(&mut self) -> Result<ReconcileOutcome, ReconcileError> {
        let addon = self.reader.read(&self.addon.path()).await?;
        let addon = addon
            .map(ObservabilityAddon::read)
            .filter(|addon| !addon.is_terminating);
        let Some(addon) = addon else {
            for component in AddonComponent::ALL {
                for kind in OWNED_KINDS {
                    self.delete_orphan(kind, component, None).await?;
                }
            }
            return Ok(ReconcileOutcome::default());
        };
        self.events.set_uid(&addon.uid);
        let inputs = self.read_inputs(&addon).await;
        let desired = AddonComponent::ALL.map(|component| {
            let state = DesiredState::of(component, &addon, &self.addon, &self.options, &inputs);
            (component, state)
        });
        let mut outcome = ReconcileOutcome {
            spec_problems: addon.spec_problems.clone(),
            ..ReconcileOutcome::default()
        };
        if self.leadership.is_dry_run {
            log_dry_run(&desired, &mut outcome);
            return Ok(outcome);
        }
        self.check_leadership()?;
        self.update_status_before(&addon, &inputs, &desired).await?;
        if let (None, Err(problem)) = (&inputs.forwarding, &inputs.monitoring_kinds) {
            // The collectors are stopped without it, but their alerts may be left.
            outcome.fail(AddonComponent::Platform, problem);
        }
        let mut updates = Vec::new();
        for ((component, desired), existing) in desired.iter().zip(&inputs.existing) {
            self.check_leadership()?;
            let found = existing.deployment.as_ref().ok().and_then(Option::as_ref);
            let applied = self.apply_desired(*component, desired, found, &addon, &mut outcome);
            let update = match applied.await {
                Ok(update) => {
                    self.is_reported(*component, None);
                    update
                }
                Err(problem) => {
                    outcome.fail(*component, &problem);
                    let condition = (ConditionReason::UpdateFailure, problem.message().to_owned());
                    self.is_reported(*component, Some(&problem))
                        .then(|| desired.update(*component, condition, false))
                }
            };
            updates.extend(update);
        }
        self.check_leadership()?;
        self.write_status(&addon, &updates).await?;
        Ok(outcome)
    }

    /// Records if a collector has a problem now. Returns true if it has to be reported.
    fn is_reported(&mut self, component: AddonComponent, problem: Option<&Problem>) -> bool {
        let now = self.objects.now();
        let [platform, uwl] = &mut self.transient;
        let debounce = match component {
            AddonComponent::Platform => platform,
            AddonComponent::Uwl => uwl,
        };
        match problem {
            Some(Problem::Transient(_)) => {
                debounce.tick(false, now) == Some(ForwardOutcome::Failure)
            }
            definite => {
                debounce.tick(true, now);
                definite.is_some()
            }
        }
    }

    /// Fails if this replica is not the leader any more. A process that was suspended does not
    /// notice that: its objects may be older than those that the new leader has applied since.
    fn check_leadership(&self) -> Result<(), ReconcileError> {
        if self.leadership.may_act() {
            Ok(())
        } else {
            Err(ReconcileError::LeadershipLost)
        }
    }

    async fn read_inputs(&mut self, addon: &ObservabilityAddon) -> ReconcileInputs {
        let mut openshift = std::mem::take(&mut self.openshift);
        // The future is large.
        let inputs = Box::pin(self.read_with(addon, &mut openshift)).await;
        self.openshift = openshift;
        inputs
    }

    async fn read_with(
        &self,
        addon: &ObservabilityAddon,
        openshift: &mut OpenShift,
    ) -> ReconcileInputs {
        let monitoring_kinds = monitoring_kinds(&self.objects).await;
        let kinds = &monitoring_kinds;
        let [platform, uwl] =
            AddonComponent::ALL.map(|component| self.existing(component, addon, kinds));
        let forwarding = async {
            if !addon.spec.enable_metrics {
                return None;
            }
            let namespace = &self.addon.namespace;
            let (reader, options) = (&self.reader, &self.options);
            Some(ForwardingInputs::read(reader, namespace, options, openshift).await)
        };
        ReconcileInputs {
            existing: [platform.await, uwl.await],
            forwarding: forwarding.await,
            monitoring_kinds,
        }
    }

    /// Reads a collector's objects, and deletes those of an earlier addon.
    async fn existing(
        &self,
        component: AddonComponent,
        addon: &ObservabilityAddon,
        monitoring_kinds: &Result<Vec<ObjectKind>, Problem>,
    ) -> ExistingObjects {
        let uid = Some(addon.uid.as_str());
        let deployment = self.delete_orphan(DEPLOYMENT, component, uid);
        let others = async {
            self.delete_orphan(SERVICE, component, uid).await?;
            for kind in monitoring_kinds.iter().flatten() {
                self.delete_orphan(*kind, component, uid).await?;
            }
            Ok(())
        };
        ExistingObjects {
            deployment: deployment.await.map_err(Problem::from),
            others: others.await.map_err(|error: ObjectError| error.into()),
        }
    }

    /// Writes the conditions that have to be in the status before pods start or stop.
    async fn update_status_before(
        &self,
        addon: &ObservabilityAddon,
        inputs: &ReconcileInputs,
        desired: &[(AddonComponent, DesiredState); 2],
    ) -> Result<(), ReconcileError> {
        let mut updates = Vec::new();
        for ((component, desired), existing) in desired.iter().zip(&inputs.existing) {
            let current = addon.status.component(*component).map(Condition::reason);
            let exists = matches!(existing.deployment, Ok(Some(_)));
            let condition = desired.condition_before(*component, current, exists);
            updates.extend(condition.map(|condition| desired.update(*component, condition, false)));
        }
        self.write_status(addon, &updates).await
    }

    /// Writes the updates of both components at once.
    async fn write_status(
        &self,
        addon: &ObservabilityAddon,
        updates: &[StatusUpdate],
    ) -> Result<(), ReconcileError> {
        if self.options.no_status || updates.is_empty() {
            return Ok(());
        }
        let change = |status: &mut AddonStatus, now| {
            for update in updates {
                match update {
                    StatusUpdate::Update(update) => match status.apply_update(update, now) {
                        Ok(()) | Err(TransitionError::NothingRolledOut { .. }) => {}
                        Err(error) => return Err(error),
                    },
                    StatusUpdate::Remove(component) => status.remove_component(*component),
                }
            }
            Ok(())
        };
        // Nothing has to be read again if nothing changes.
        let mut status = addon.status.clone();
        if change(&mut status, self.objects.now()).is_ok() && status == addon.status {
            return Ok(());
        }
        let written = self.writer.write(Some(&addon.uid), change).await;
        match written {
            Ok(WriteOutcome::Changed) => self.announce(updates),
            Ok(WriteOutcome::Unchanged) => {}
            // An addon that was deleted or replaced is handled by the next reconciliation.
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Logs the updates and publishes them as Events.
    fn announce(&self, updates: &[StatusUpdate]) {
        for update in updates {
            let StatusUpdate::Update(update) = update else {
                continue;
            };
            let (component, reason) = (update.component, update.reason);
            let message = format!("{component}: {}", update.message);
            info!("{component}: {reason}: {}", update.message);
            let kind = match reason {
                ConditionReason::UpdateFailure => EventType::Warning,
                _ => EventType::Normal,
            };
            let reason = reason.as_str();
            self.events.publish(kind, reason, "Deploy", message);
        }
    }

    /// Applies the desired state of one collector. Returns the status update for the result, and
    /// records the Deployment and the time of the next reconciliation in `outcome`.
    async fn apply_desired(
        &mut self,
        component: AddonComponent,
        desired: &DesiredState,
        found: Option<&Value>,
        addon: &ObservabilityAddon,
        outcome: &mut ReconcileOutcome,
    ) -> Result<Option<StatusUpdate>, Problem> {
        if !matches!(
            desired,
            DesiredState::Running(_) | DesiredState::Undetermined(_)
        ) {
            self.readiness.reset(component);
        }
        let current = addon.status.component(component);
        let after = Some(desired.update(component, desired.condition_after(component), false));
        match desired {
            DesiredState::Running(manifests) => {
                let deployment = self.apply(&manifests.objects).await?;
                // It may be missing only if it was deleted since.
                let path = DEPLOYMENT.named(&self.addon.namespace, object_name(component));
                self.reader.forget(&path);
                let replaced = is_replaced(found, &deployment, current);
                let mut ready_within = self.options.ready_within.max(2 * addon.spec.interval());
                if self.readiness.is_first_install(component, current) {
                    ready_within = ready_within.min(FIRST_READY_WITHIN);
                }
                let (ready, now) = (is_ready(&deployment), Instant::now());
                outcome.deployments.push((component, Some(deployment)));
                let readiness = self.readiness.check(component, ready, ready_within, now);
                if let RolloutReadiness::PendingUntil(due) = readiness {
                    outcome.requeue_no_later_than(due);
                }
                let condition = self.rollout_condition(component, desired, readiness, current);
                let condition = condition.await?;
                Ok(condition.map(|condition| desired.update(component, condition, replaced)))
            }
            DesiredState::Disabled(objects) => {
                // A Deployment of the same name that is not the addon's is left alone.
                if let Some(found) = found.filter(|found| is_owned_by(found, &addon.uid)) {
                    let stopped = self.stop(component, found).await?;
                    outcome.deployments.push((component, Some(stopped)));
                }
                self.apply(objects).await.map(|_| after)
            }
            DesiredState::Unsupported(_) => {
                self.remove(component, outcome).await?;
                Ok(after)
            }
            DesiredState::Absent => {
                if self.remove(component, outcome).await? {
                    return Ok(current.is_some().then_some(StatusUpdate::Remove(component)));
                }
                outcome.requeue_no_later_than(Instant::now() + POD_POLL_INTERVAL);
                Ok(after)
            }
            DesiredState::Undetermined(problem) => Err(problem.clone()),
        }
    }

    /// Returns the reason and message of a collector that was applied, or `None` if they stay as
    /// they are.
    async fn rollout_condition(
        &self,
        component: AddonComponent,
        desired: &DesiredState,
        readiness: RolloutReadiness,
        current: Option<&Condition>,
    ) -> Result<Option<(ConditionReason, String)>, Problem> {
        let was_overdue = current.is_some_and(|condition| {
            condition.reason() == ConditionReason::UpdateFailure
                && condition.message.starts_with(NOT_READY)
        });
        Ok(match readiness {
            RolloutReadiness::Overdue => {
                let cause = waiting_reason(&self.pods(component).await?);
                let name = object_name(component);
                let message = format!("{NOT_READY} of Deployment {name}: {cause}");
                Some((ConditionReason::UpdateFailure, message))
            }
            // The time starts anew when the operator restarts. A condition that was written before
            // is still true.
            RolloutReadiness::PendingUntil(_) if was_overdue => None,
            RolloutReadiness::PendingUntil(_) | RolloutReadiness::Ready => {
                Some(desired.condition_after(component))
            }
        })
    }

    /// Applies all objects, even if some fail. Returns the Deployment as applied, if there is one.
    async fn apply(&self, objects: &[(ObjectKind, Value)]) -> Result<Value, Problem> {
        let mut deployment = Value::Null;
        let mut problems = Vec::new();
        for (kind, object) in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = kind.named(&self.addon.namespace, name);
            match self.objects.apply(&path, object, FIELD_MANAGER).await {
                Ok(object) if *kind == DEPLOYMENT => deployment = object,
                Ok(_) => {}
                Err(error) => problems.push(error.into()),
            }
        }
        Problem::join(&problems).map_or(Ok(deployment), Err)
    }

    /// Sets the replicas of this very Deployment to 0, and returns it.
    async fn stop(&self, component: AddonComponent, found: &Value) -> Result<Value, Problem> {
        if found["spec"]["replicas"] == 0 {
            return Ok(found.clone());
        }
        let name = object_name(component);
        let object = json!({
            "apiVersion": DEPLOYMENT.api_version(),
            "kind": DEPLOYMENT.kind,
            "metadata": { "name": name, "uid": found["metadata"]["uid"] },
            "spec": { "replicas": 0 },
        });
        let path = DEPLOYMENT.named(&self.addon.namespace, name);
        Ok(self.objects.apply(&path, &object, STOP_MANAGER).await?)
    }

    /// Deletes a collector's objects. Returns true once its pods are gone as well.
    async fn remove(
        &self,
        component: AddonComponent,
        outcome: &mut ReconcileOutcome,
    ) -> Result<bool, Problem> {
        let namespace = &self.addon.namespace;
        for kind in OWNED_KINDS {
            if let Some(object) = read_owned(&self.objects, kind, namespace, component).await? {
                self.delete(kind, &object).await?;
            }
        }
        outcome.deployments.push((component, None));
        Ok(self.pods(component).await?.is_empty())
    }

    /// Deletes this very object. A new object of the same name is left alone.
    async fn delete(&self, kind: ObjectKind, object: &Value) -> Result<(), ObjectError> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = kind.named(&self.addon.namespace, name);
        match self.objects.delete(&path, metadata["uid"].as_str()).await {
            Err(error) if error.cause != ApiError::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    async fn pods(&self, component: AddonComponent) -> Result<Vec<Value>, ObjectError> {
        let (namespace, selector) = (&self.addon.namespace, pod_selector(component));
        self.objects.list(POD, namespace, Some(&selector)).await
    }

    /// Reads an object of the operator, and deletes it if its addon no longer exists. `uid` is the
    /// UID of the current addon. Returns the object if it is left.
    async fn delete_orphan(
        &self,
        kind: ObjectKind,
        component: AddonComponent,
        uid: Option<&str>,
    ) -> Result<Option<Value>, ObjectError> {
        let path = kind.named(&self.addon.namespace, object_name(component));
        let found = if kind == DEPLOYMENT {
            self.reader.read(&path).await?
        } else {
            self.objects.get(&path).await?
        };
        let Some(object) = found else {
            return Ok(None);
        };
        let is_foreign = object["metadata"]["labels"][MANAGED_BY] != FIELD_MANAGER;
        let is_current = uid.is_some_and(|uid| is_owned_by(&object, uid));
        // If this replica was suspended, the object may belong to a newer addon.
        if is_foreign || is_current || !self.leadership.may_act() {
            return Ok(Some(object));
        }
        let name = object_name(component);
        info!("deleting {} {name}: its addon no longer exists", kind.kind);
        self.delete(kind, &object).await?;
        Ok(None)
    }
}

/// Returns true if pods that may have reported are being replaced.
fn is_replaced(found: Option<&Value>, now: &Value, current: Option<&Condition>) -> bool {
    let generation = |deployment: &Value| deployment["metadata"]["generation"].clone();
    match found {
        // If another client edited the Deployment after it was read, and this call undid the edit,
        // the generation is the only trace of it.
        Some(found) => generation(found) != generation(now),
        // The very first pods were announced before they were created.
        None => matches!(
            current.map(Condition::reason),
            Some(ConditionReason::ForwardSuccessful | ConditionReason::ForwardFailure)
        ),
    }
}

fn log_dry_run(desired: &[(AddonComponent, DesiredState); 2], outcome: &mut ReconcileOutcome) {
    for (component, state) in desired {
        if let DesiredState::Undetermined(problem) = state {
            outcome.fail(*component, problem);
            continue;
        }
        let (reason, message) = state.condition_after(*component);
        info!("dry run: {component} would be {reason}: {message}");
    }
}
