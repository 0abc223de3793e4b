//! A reconciliation: read the inputs, write the conditions that have to precede the change, apply
//! it, write the result.

use std::time::Duration;

use kelpie_core::addon::{
    AddonComponent, AddonStatus, Condition, ConditionReason, OperatorUpdate, TransitionError,
};
use kelpie_kube::client::ApiError;
use kelpie_kube::events::EventType;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;
use tracing::{info, warn};

use super::desired::DesiredState;
use super::inputs::{POD, ReconcileInputs};
use super::manifest::{CollectorManifests, collector_selector, deployment_name};
use super::options::OperatorOptions;
use super::readiness::{NOT_READY, ReadinessTracker, RolloutReadiness, is_ready, waiting_reason};
use crate::addon::{AddonRef, ObservabilityAddon};
use crate::context::{AddonEventRecorder, LeadershipWatch};
use crate::owned::{DEPLOYMENT, FIELD_MANAGER, OWNED_KINDS, OWNED_SELECTOR, is_owned_by};
use crate::status_writer::{StatusWriter, WriteError, WriteOutcome};

/// The interval at which terminating pods are polled. Pods are not watched.
const POD_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reconciles the collectors with the addon.
pub(super) struct OperatorReconciler {
    pub(super) objects: ObjectClient,
    pub(super) writer: StatusWriter,
    pub(super) addon: AddonRef,
    pub(super) options: OperatorOptions,
    pub(super) events: AddonEventRecorder,
    pub(super) leadership: LeadershipWatch,
    pub(super) readiness: ReadinessTracker,
}

/// The outcome of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReconcileOutcome {
    /// The time of the next reconciliation, if it has to run without a change.
    pub(super) requeue_at: Option<Instant>,
    /// A message for each component that failed.
    pub(super) failures: Vec<String>,
}

impl ReconcileOutcome {
    fn requeue_no_later_than(&mut self, at: Instant) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |earlier| earlier.min(at)));
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
        let addon = self.objects.get(&self.addon.path()).await?;
        let addon = addon
            .map(ObservabilityAddon::read)
            .filter(|addon| !addon.is_terminating);
        let Some(addon) = addon else {
            self.delete_orphans(None).await?;
            return Ok(ReconcileOutcome::default());
        };
        let inputs = match self.prepare(&addon).await {
            Ok(inputs) => inputs,
            Err(error) => {
                self.report_error(&addon, &error).await?;
                return Err(error.into());
            }
        };
        let desired = AddonComponent::ALL.map(|component| {
            let state = DesiredState::of(component, &addon, &self.addon, &self.options, &inputs);
            (component, state)
        });
        if self.leadership.is_dry_run {
            log_dry_run(&desired);
            return Ok(ReconcileOutcome::default());
        }
        self.check_leadership()?;
        self.update_status_before(&addon, &inputs, &desired).await?;
        let mut outcome = ReconcileOutcome::default();
        let mut updates = Vec::new();
        for ((component, desired), found) in desired.iter().zip(&inputs.deployments) {
            self.check_leadership()?;
            let found = found.as_ref();
            let update = self.apply_desired(*component, desired, found, &addon, &mut outcome);
            updates.extend(update.await);
        }
        self.check_leadership()?;
        self.write_status(&addon, &updates).await?;
        Ok(outcome)
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

    async fn prepare(&self, addon: &ObservabilityAddon) -> Result<ReconcileInputs, ObjectError> {
        self.events.set_uid(&addon.uid);
        self.delete_orphans(Some(&addon.uid)).await?;
        ReconcileInputs::read(&self.objects, &self.addon.namespace, &self.options).await
    }

    /// Reports a missing permission or a rejected request, which needs the attention of an
    /// administrator. An API server that does not answer is not a failure of the addon.
    async fn report_error(
        &self,
        addon: &ObservabilityAddon,
        error: &ObjectError,
    ) -> Result<(), ReconcileError> {
        let needs_attention = matches!(
            error.cause,
            ApiError::Forbidden(_) | ApiError::Invalid { .. }
        );
        if !needs_attention || !self.leadership.may_act() {
            return Ok(());
        }
        let is_reported = |component: &AddonComponent| {
            *component == AddonComponent::Platform || addon.status.component(*component).is_some()
        };
        let components = AddonComponent::ALL.into_iter().filter(is_reported);
        let updates: Vec<StatusUpdate> = components
            .map(|component| {
                StatusUpdate::Update(OperatorUpdate {
                    component,
                    reason: ConditionReason::UpdateFailure,
                    message: error.to_string(),
                    rollout: None,
                    replaced: false,
                })
            })
            .collect();
        self.write_status(addon, &updates).await
    }

    /// Writes the conditions that have to be in the status before pods start or stop.
    async fn update_status_before(
        &self,
        addon: &ObservabilityAddon,
        inputs: &ReconcileInputs,
        desired: &[(AddonComponent, DesiredState); 2],
    ) -> Result<(), ReconcileError> {
        let mut updates = Vec::new();
        for ((component, desired), found) in desired.iter().zip(&inputs.deployments) {
            let current = addon.status.component(*component).map(Condition::reason);
            let condition = desired.condition_before(*component, current, found.is_some());
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
        let written = self.writer.write(Some(&addon.uid), change).await;
        match written {
            Ok(WriteOutcome::Changed) => self.announce(updates),
            // An addon that was deleted or replaced is handled by the next reconciliation.
            Ok(WriteOutcome::Unchanged) | Err(WriteError::Absent(_) | WriteError::Replaced(_)) => {}
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
    /// records failures and the time of the next reconciliation in `outcome`.
    async fn apply_desired(
        &mut self,
        component: AddonComponent,
        desired: &DesiredState,
        found: Option<&Value>,
        addon: &ObservabilityAddon,
        outcome: &mut ReconcileOutcome,
    ) -> Option<StatusUpdate> {
        if !matches!(
            desired,
            DesiredState::Running(_) | DesiredState::Undetermined(_)
        ) {
            self.readiness.reset(component);
        }
        let current = addon.status.component(component);
        let after = Some(desired.update(component, desired.condition_after(component), false));
        let applied = match desired {
            DesiredState::Running(manifests) => match self.apply(manifests).await {
                Ok(deployment) => {
                    let replaced = is_replaced(found, &deployment, current);
                    let ready_within = self.options.ready_within.max(2 * addon.spec.interval());
                    let (ready, now) = (is_ready(&deployment), Instant::now());
                    let readiness = self.readiness.check(component, ready, ready_within, now);
                    if let RolloutReadiness::PendingUntil(due) = readiness {
                        outcome.requeue_no_later_than(due);
                    }
                    let condition = self.rollout_condition(component, desired, readiness, current);
                    let condition = condition.await;
                    Ok(condition.map(|condition| desired.update(component, condition, replaced)))
                }
                Err(error) => Err(error),
            },
            DesiredState::Disabled(manifests) => self.apply(manifests).await.map(|_| after),
            DesiredState::Unsupported(_) => self.remove(component).await.map(|_| after),
            DesiredState::Absent => self.remove(component).await.map(|is_clean| {
                if is_clean {
                    return current.is_some().then_some(StatusUpdate::Remove(component));
                }
                outcome.requeue_no_later_than(Instant::now() + POD_POLL_INTERVAL);
                after
            }),
            DesiredState::Undetermined(problem) => {
                outcome.failures.push(format!("{component}: {problem}"));
                Ok(after)
            }
        };
        applied.unwrap_or_else(|error| {
            warn!("{component}: {error}");
            outcome.failures.push(format!("{component}: {error}"));
            let condition = (ConditionReason::UpdateFailure, error);
            Some(desired.update(component, condition, false))
        })
    }

    /// Returns the reason and message of a collector that was applied, or `None` if they stay as
    /// they are.
    async fn rollout_condition(
        &self,
        component: AddonComponent,
        desired: &DesiredState,
        readiness: RolloutReadiness,
        current: Option<&Condition>,
    ) -> Option<(ConditionReason, String)> {
        let was_overdue = current.is_some_and(|condition| {
            condition.reason() == ConditionReason::UpdateFailure
                && condition.message.starts_with(NOT_READY)
        });
        match readiness {
            RolloutReadiness::Overdue => {
                let message = self.not_ready_message(component).await;
                Some((ConditionReason::UpdateFailure, message))
            }
            // The time starts anew when the operator restarts. A condition that was written before
            // is still true.
            RolloutReadiness::PendingUntil(_) if was_overdue => None,
            RolloutReadiness::PendingUntil(_) | RolloutReadiness::Ready => {
                Some(desired.condition_after(component))
            }
        }
    }

    /// Applies all objects, even if some fail. Returns the Deployment as applied.
    async fn apply(&self, collector: &CollectorManifests) -> Result<Value, String> {
        let mut deployment = Value::Null;
        let mut failures = Vec::new();
        for (kind, object) in &collector.objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = kind.named(&self.addon.namespace, name);
            match self.objects.apply(&path, object, FIELD_MANAGER).await {
                Ok(object) if *kind == DEPLOYMENT => deployment = object,
                Ok(_) => {}
                Err(error) => failures.push(error.to_string()),
            }
        }
        if !failures.is_empty() {
            return Err(failures.join("; "));
        }
        Ok(deployment)
    }

    /// Deletes a collector's objects. Returns true once its pods are gone as well.
    async fn remove(&self, component: AddonComponent) -> Result<bool, String> {
        let remove = async {
            for kind in OWNED_KINDS {
                for object in self.list(kind, component).await? {
                    self.delete(kind, &object).await?;
                }
            }
            Ok(self.list(POD, component).await?.is_empty())
        };
        remove.await.map_err(|error: ObjectError| error.to_string())
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

    /// Lists the objects of a collector.
    async fn list(
        &self,
        kind: ObjectKind,
        component: AddonComponent,
    ) -> Result<Vec<Value>, ObjectError> {
        let selector = collector_selector(component);
        let namespace = &self.addon.namespace;
        self.objects.list(kind, namespace, Some(&selector)).await
    }

    async fn not_ready_message(&self, component: AddonComponent) -> String {
        let cause = match self.list(POD, component).await {
            Ok(pods) => waiting_reason(&pods),
            Err(error) => error.to_string(),
        };
        format!(
            "{NOT_READY} of Deployment {}: {cause}",
            deployment_name(component)
        )
    }

    /// Deletes objects whose addon no longer exists. `uid` is the UID of the current addon.
    async fn delete_orphans(&self, uid: Option<&str>) -> Result<(), ObjectError> {
        if self.leadership.is_dry_run {
            return Ok(());
        }
        let namespace = &self.addon.namespace;
        for kind in OWNED_KINDS {
            let objects = self
                .objects
                .list(kind, namespace, Some(OWNED_SELECTOR))
                .await?;
            for object in objects {
                if uid.is_some_and(|uid| is_owned_by(&object, uid)) {
                    continue;
                }
                // If this replica was suspended, the object may belong to a newer addon.
                if !self.leadership.may_act() {
                    return Ok(());
                }
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                info!("deleting {} {name}: its addon no longer exists", kind.kind);
                self.delete(kind, &object).await?;
            }
        }
        Ok(())
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

fn log_dry_run(desired: &[(AddonComponent, DesiredState); 2]) {
    for (component, state) in desired {
        let (reason, message) = state.condition_after(*component);
        info!("dry run: {component} would be {reason}: {message}");
    }
}
