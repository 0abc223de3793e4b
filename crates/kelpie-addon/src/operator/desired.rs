//! The desired state of a collector, as a pure function of the inputs.

use kelpie_core::addon::{AddonComponent, ConditionReason, OperatorUpdate};

use super::inputs::ReconcileInputs;
use super::manifest::{CollectorManifests, ManifestBuilder};
use super::options::OperatorOptions;
use super::reconcile::StatusUpdate;
use crate::addon::{AddonRef, ObservabilityAddon};

/// The desired state of a collector.
pub(super) enum DesiredState {
    /// The collector runs, with these objects.
    Running(CollectorManifests),
    /// The objects exist, but the Deployment has no replicas.
    Disabled(CollectorManifests),
    /// The collector cannot work on this cluster, so its objects are deleted. The condition gets
    /// this message.
    Unsupported(String),
    /// The collector is not wanted, so its objects and its condition are deleted.
    Absent,
    /// An input is missing or broken, as described by this message. The collector stays as it is.
    Undetermined(String),
}

impl DesiredState {
    pub(super) fn of(
        component: AddonComponent,
        addon: &ObservabilityAddon,
        addon_ref: &AddonRef,
        options: &OperatorOptions,
        inputs: &ReconcileInputs,
    ) -> Self {
        let [platform, uwl] = &inputs.sources;
        let [platform_list, uwl_list] = &inputs.allowlists;
        let (source, allowlist) = match component {
            AddonComponent::Platform => (platform, platform_list),
            AddonComponent::Uwl => (uwl, uwl_list),
        };
        match (component, source) {
            (_, Err(problem)) => return Self::Undetermined(problem.clone()),
            (AddonComponent::Platform, Ok(false)) => {
                let (name, namespace) = (&options.platform.name, &options.platform.namespace);
                let message = format!("there is no Service {name} in namespace {namespace}");
                return Self::Unsupported(message);
            }
            (AddonComponent::Uwl, Ok(exists)) if !exists || *platform == Ok(false) => {
                return Self::Absent;
            }
            _ => {}
        }
        let allowlist = match allowlist {
            Ok(allowlist) => allowlist,
            Err(problem) => return Self::Undetermined(problem.clone()),
        };
        if component == AddonComponent::Uwl && allowlist.is_empty() {
            return Self::Absent;
        }
        let hub = match &inputs.hub {
            Ok(hub) => hub,
            Err(problem) => return Self::Undetermined(problem.clone()),
        };
        let builder = ManifestBuilder {
            component,
            addon,
            addon_ref,
            options,
            hub,
            allowlist,
            inputs,
        };
        if addon.spec.enable_metrics {
            Self::Running(builder.build())
        } else {
            Self::Disabled(builder.build())
        }
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
            Self::Undetermined(message) => (ConditionReason::UpdateFailure, message.clone()),
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
