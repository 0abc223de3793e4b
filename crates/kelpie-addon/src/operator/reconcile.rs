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
    pub(super) dry_run: bool,
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

/// The outcome of applying the desired state of one collector.
enum ApplyOutcome {
    /// The objects were applied.
    Applied {
        /// The pods are being replaced.
        replaced: bool,
        readiness: RolloutReadiness,
    },
    /// The objects were deleted.
    Removed {
        /// The pods are gone as well.
        is_clean: bool,
    },
    /// There is nothing to wait for.
    Done,
    /// The objects could not be applied or deleted.
    Failed(String),
}

/// A change of the status.
enum StatusUpdate {
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
        if self.dry_run {
            log_dry_run(&desired);
            return Ok(ReconcileOutcome::default());
        }
        self.check_leadership()?;
        self.update_status_before(&addon, &inputs, &desired).await?;
        let mut outcome = ReconcileOutcome::default();
        let mut updates = Vec::new();
        for ((component, desired), found) in desired.iter().zip(&inputs.deployments) {
            self.check_leadership()?;
            let applied = self
                .apply_desired(*component, desired, found.as_ref(), &addon)
                .await;
            let current = addon.status.component(*component);
            let update = self
                .status_update_after(*component, desired, applied, current, &mut outcome)
                .await;
            updates.extend(update);
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
        if !matches!(
            error.cause,
            ApiError::Forbidden(_) | ApiError::Invalid { .. }
        ) {
            return Ok(());
        }
        let is_reported = |component: &AddonComponent| {
            *component == AddonComponent::Platform || addon.status.component(*component).is_some()
        };
        let components = AddonComponent::ALL.into_iter().filter(is_reported);
        let updates: Vec<StatusUpdate> = components
            .map(|component| {
                let (reason, message) = (ConditionReason::UpdateFailure, error.to_string());
                StatusUpdate::Update(operator_update(component, reason, message, None, false))
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
            updates.extend(condition.map(|(reason, message)| {
                let rollout = desired.rollout();
                StatusUpdate::Update(operator_update(*component, reason, message, rollout, false))
            }));
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
            Ok(WriteOutcome::Unchanged)
            | Err(WriteError::Absent { .. } | WriteError::Replaced { .. }) => {}
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
            let OperatorUpdate {
                component,
                reason,
                message,
                ..
            } = update;
            info!("{component}: {reason}: {message}");
            let kind = match reason {
                ConditionReason::UpdateFailure => EventType::Warning,
                _ => EventType::Normal,
            };
            let message = format!("{component}: {message}");
            self.events
                .publish(kind, reason.as_str(), "Deploy", message);
        }
    }

    async fn apply_desired(
        &mut self,
        component: AddonComponent,
        desired: &DesiredState,
        found: Option<&Value>,
        addon: &ObservabilityAddon,
    ) -> ApplyOutcome {
        let result = match desired {
            DesiredState::Running(manifests) => {
                let ready_within = self.options.ready_within.max(2 * addon.spec.interval());
                let current = addon.status.component(component).map(Condition::reason);
                self.apply(manifests).await.map(|deployment| {
                    let ready = is_ready(&deployment);
                    let now = Instant::now();
                    ApplyOutcome::Applied {
                        replaced: is_replaced(found, &deployment, current),
                        readiness: self.readiness.check(component, ready, ready_within, now),
                    }
                })
            }
            DesiredState::Disabled(manifests) => {
                self.readiness.reset(component);
                self.apply(manifests).await.map(|_| ApplyOutcome::Done)
            }
            DesiredState::Unsupported(_) | DesiredState::Absent => {
                self.readiness.reset(component);
                let removed = self.remove(component).await;
                let removed = removed.map_err(|error| error.to_string());
                removed.map(|is_clean| ApplyOutcome::Removed { is_clean })
            }
            DesiredState::Undetermined(_) => Ok(ApplyOutcome::Done),
        };
        result.unwrap_or_else(ApplyOutcome::Failed)
    }

    /// Applies all objects, even if some fail. Returns the Deployment as applied.
    async fn apply(&self, collector: &CollectorManifests) -> Result<Value, String> {
        let mut deployment = Value::Null;
        let mut failures = Vec::new();
        for manifest in &collector.manifests {
            let name = manifest.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            let path = manifest.kind.named(&self.addon.namespace, name);
            let applied = self
                .objects
                .apply(&path, &manifest.object, FIELD_MANAGER)
                .await;
            match applied {
                Ok(object) if manifest.kind == DEPLOYMENT => deployment = object,
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
    async fn remove(&self, component: AddonComponent) -> Result<bool, ObjectError> {
        let namespace = &self.addon.namespace;
        for kind in OWNED_KINDS {
            let selector = collector_selector(component);
            for object in self.objects.list(kind, namespace, Some(&selector)).await? {
                self.delete(kind, &object).await?;
            }
        }
        Ok(self.pods(component).await?.is_empty())
    }

    /// Deletes this very object. A new object of the same name is left alone.
    async fn delete(&self, kind: ObjectKind, object: &Value) -> Result<(), ObjectError> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = kind.named(&self.addon.namespace, name);
        let deleted = self.objects.delete(&path, metadata["uid"].as_str()).await;
        match deleted {
            Err(error) if error.cause != ApiError::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    async fn pods(&self, component: AddonComponent) -> Result<Vec<Value>, ObjectError> {
        let namespace = &self.addon.namespace;
        self.objects
            .list(POD, namespace, Some(&collector_selector(component)))
            .await
    }

    /// Returns the status update for the outcome of a collector, and records failures and the time
    /// of the next reconciliation in `outcome`.
    async fn status_update_after(
        &self,
        component: AddonComponent,
        desired: &DesiredState,
        applied: ApplyOutcome,
        current: Option<&Condition>,
        outcome: &mut ReconcileOutcome,
    ) -> Option<StatusUpdate> {
        let (reason, message) = desired.condition_after(component);
        let update = |reason, message, replaced| {
            Some(StatusUpdate::Update(operator_update(
                component,
                reason,
                message,
                desired.rollout(),
                replaced,
            )))
        };
        match applied {
            ApplyOutcome::Failed(error) => {
                warn!("{component}: {error}");
                outcome.failures.push(format!("{component}: {error}"));
                update(ConditionReason::UpdateFailure, error, false)
            }
            ApplyOutcome::Removed { is_clean: true } if matches!(desired, DesiredState::Absent) => {
                current.is_some().then_some(StatusUpdate::Remove(component))
            }
            ApplyOutcome::Applied {
                replaced,
                readiness,
            } => {
                let was_overdue = current.is_some_and(|condition| {
                    condition.reason() == ConditionReason::UpdateFailure
                        && condition.message.starts_with(NOT_READY)
                });
                match readiness {
                    RolloutReadiness::Overdue => {
                        let message = self.not_ready_message(component).await;
                        update(ConditionReason::UpdateFailure, message, false)
                    }
                    RolloutReadiness::PendingUntil(due) => {
                        outcome.requeue_no_later_than(due);
                        // The time starts anew when the operator restarts. A condition that was
                        // written before is still true.
                        if was_overdue {
                            return None;
                        }
                        update(reason, message, replaced)
                    }
                    RolloutReadiness::Ready => update(reason, message, replaced),
                }
            }
            ApplyOutcome::Removed { is_clean } => {
                if !is_clean && matches!(desired, DesiredState::Absent) {
                    outcome.requeue_no_later_than(Instant::now() + POD_POLL_INTERVAL);
                }
                update(reason, message, false)
            }
            ApplyOutcome::Done => {
                if let DesiredState::Undetermined(problem) = desired {
                    outcome.failures.push(format!("{component}: {problem}"));
                }
                update(reason, message, false)
            }
        }
    }

    async fn not_ready_message(&self, component: AddonComponent) -> String {
        let cause = match self.pods(component).await {
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
        if self.dry_run {
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
fn is_replaced(found: Option<&Value>, now: &Value, current: Option<ConditionReason>) -> bool {
    let generation = |deployment: &Value| deployment["metadata"]["generation"].clone();
    match found {
        // If another client edited the Deployment after it was read, and this call undid the edit,
        // the generation is the only trace of it.
        Some(found) => generation(found) != generation(now),
        // The very first pods were announced before they were created.
        None => matches!(
            current,
            Some(ConditionReason::ForwardSuccessful | ConditionReason::ForwardFailure)
        ),
    }
}

fn operator_update(
    component: AddonComponent,
    reason: ConditionReason,
    message: String,
    rollout: Option<&str>,
    replaced: bool,
) -> OperatorUpdate {
    OperatorUpdate {
        component,
        reason,
        message,
        rollout: rollout.map(str::to_owned),
        replaced,
    }
}

fn log_dry_run(desired: &[(AddonComponent, DesiredState); 2]) {
    for (component, state) in desired {
        let (reason, message) = state.condition_after(*component);
        info!("dry run: {component} would be {reason}: {message}");
    }
}
