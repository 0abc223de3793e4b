//! The desired state of a collector, as a pure function of the inputs.

use kelpie_core::addon::{AddonComponent, ConditionReason, OperatorUpdate};
use kelpie_kube::objects::ObjectKind;
use serde_json::Value;

use super::inputs::{ForwardingInputs, ReconcileInputs};
use super::manifest::{CollectorManifests, ManifestBuilder, TemplateInputs};
use super::options::OperatorOptions;
use super::problem::Problem;
use super::reconcile::StatusUpdate;
use crate::addon::{AddonRef, ObservabilityAddon};

/// The desired state of a collector.
pub(super) enum DesiredState {
    /// The collector runs, with these objects.
    Running(CollectorManifests),
    /// The Deployment has no replicas. Its template stays as it is; the objects beside it are
    /// these.
    Disabled(Vec<(ObjectKind, Value)>),
    /// The collector cannot work on this cluster, so its objects are deleted. The condition gets
    /// this message.
    Unsupported(String),
    /// The collector is not wanted, so its objects and its condition are deleted.
    Absent,
    /// An input is missing, broken or unreadable. The collector stays as it is.
    Undetermined(Problem),
}

impl DesiredState {
    pub(super) fn of(
        component: AddonComponent,
        addon: &ObservabilityAddon,
        addon_ref: &AddonRef,
        options: &OperatorOptions,
        inputs: &ReconcileInputs,
    ) -> Self {
        let state = Self::determine(component, addon, addon_ref, options, inputs);
        state.unwrap_or_else(Self::Undetermined)
    }

    fn determine(
        component: AddonComponent,
        addon: &ObservabilityAddon,
        addon_ref: &AddonRef,
        options: &OperatorOptions,
        inputs: &ReconcileInputs,
    ) -> Result<Self, Problem> {
        let [platform, uwl] = &inputs.existing;
        let existing = match component {
            AddonComponent::Platform => platform,
            AddonComponent::Uwl => uwl,
        };
        let deployment = existing.deployment.as_ref().map_err(Problem::clone)?;
        let kinds = inputs.monitoring_kinds.as_deref();
        let builder = |monitoring_kinds| ManifestBuilder {
            component,
            addon,
            addon_ref,
            monitoring_kinds,
        };
        let Some(forwarding) = &inputs.forwarding else {
            if component == AddonComponent::Uwl && deployment.is_none() {
                return Ok(Self::Absent);
            }
            let objects = builder(kinds.unwrap_or_default()).companions();
            return Ok(Self::Disabled(objects));
        };
        let openshift = forwarding.openshift.clone()?;
        let is_openshift = openshift.is_some();
        if let Some(unwanted) = Self::without_source(component, options, forwarding, is_openshift)?
        {
            return Ok(unwanted);
        }
        let [platform_list, uwl_list] = &forwarding.allowlists;
        let allowlist = match component {
            AddonComponent::Platform => platform_list,
            AddonComponent::Uwl => uwl_list,
        };
        let allowlist = allowlist.as_ref().map_err(Problem::clone)?;
        if component == AddonComponent::Uwl && allowlist.is_empty() {
            return Ok(Self::Absent);
        }
        existing.others.clone()?;
        let inputs = TemplateInputs {
            options,
            hub: forwarding.hub.as_ref().map_err(Problem::clone)?,
            allowlist,
            secrets: forwarding.secrets.as_deref().map_err(Problem::clone)?,
            openshift: openshift.as_deref(),
        };
        let builder = builder(kinds.map_err(Problem::clone)?);
        Ok(Self::Running(builder.running(&inputs)))
    }

    /// Returns the state of a collector that has no Prometheus to collect from.
    fn without_source(
        component: AddonComponent,
        options: &OperatorOptions,
        inputs: &ForwardingInputs,
        is_openshift: bool,
    ) -> Result<Option<Self>, Problem> {
        let [platform, uwl] = &inputs.sources;
        // OpenShift always has its Prometheus, whose Service may be missing for a moment.
        if is_openshift && component == AddonComponent::Platform {
            return Ok(None);
        }
        let (source, unwanted) = match component {
            AddonComponent::Platform => {
                let (name, namespace) = (&options.platform.name, &options.platform.namespace);
                let message = format!("there is no Service {name} in namespace {namespace}");
                (platform, Self::Unsupported(message))
            }
            AddonComponent::Uwl if *platform == Ok(false) && !is_openshift => {
                return Ok(Some(Self::Absent));
            }
            AddonComponent::Uwl => (uwl, Self::Absent),
        };
        let exists = source.clone()?;
        Ok((!exists).then_some(unwanted))
    }

    /// Returns the reason and message to write before anything is applied. This is needed if the
    /// collector does not exist yet or has to stop: reports of its pods are then accepted neither
    /// too early nor too late.
    pub(super) fn condition_before(
        &self,
        component: AddonComponent,
        current: Option<ConditionReason>,
        exists: bool,
    ) -> Option<(ConditionReason, String)> {
        // After a failure the update is announced only once it has succeeded; otherwise the
        // condition would flap.
        if current == Some(ConditionReason::UpdateFailure) && !matches!(self, Self::Undetermined(_))
        {
            return None;
        }
        match self {
            Self::Undetermined(Problem::Transient(_)) => None,
            Self::Running(_) => {
                let is_first = matches!(
                    current,
                    None | Some(ConditionReason::DisabledMetrics | ConditionReason::NotSupported)
                );
                (!exists && is_first).then(|| self.condition_after(component))
            }
            Self::Absent if current.is_none() && !exists => None,
            Self::Undetermined(_) | Self::Disabled(_) | Self::Unsupported(_) | Self::Absent => {
                Some(self.condition_after(component))
            }
        }
    }

    /// Returns the reason and message to write once the desired state was applied.
    pub(super) fn condition_after(&self, component: AddonComponent) -> (ConditionReason, String) {
        match self {
            Self::Running(_) => (
                ConditionReason::UpdateSuccessful,
                format!("the {component} is rolled out"),
            ),
            Self::Disabled(_) => (
                ConditionReason::DisabledMetrics,
                "metrics are disabled: spec.enableMetrics is false".to_owned(),
            ),
            Self::Unsupported(message) => (ConditionReason::NotSupported, message.clone()),
            Self::Absent => (
                ConditionReason::DisabledMetrics,
                format!("the {component} is not wanted"),
            ),
            Self::Undetermined(problem) => {
                (ConditionReason::UpdateFailure, problem.message().to_owned())
            }
        }
    }

    /// Returns the update of the status with this reason and message.
    pub(super) fn update(
        &self,
        component: AddonComponent,
        (reason, message): (ConditionReason, String),
        replaced: bool,
    ) -> StatusUpdate {
        StatusUpdate::Update(OperatorUpdate {
            component,
            reason,
            message,
            rollout: match self {
                Self::Running(manifests) => Some(manifests.rollout.clone()),
                _ => None,
            },
            replaced,
        })
    }
}
