//! The desired state of a collector, as a pure function of the inputs.

use kelpie_core::addon::{AddonComponent, ConditionReason};

use super::inputs::ReconcileInputs;
use super::manifest::{CollectorManifests, ManifestBuilder};
use super::options::{OperatorOptions, PrometheusRef};
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
        let missing = |kind: &str, source: &PrometheusRef| {
            format!(
                "there is no {kind} {} in namespace {}",
                source.name, source.namespace
            )
        };
        match (component, platform, uwl) {
            (AddonComponent::Platform, Err(problem), _)
            | (AddonComponent::Uwl, _, Err(problem)) => {
                return Self::Undetermined(problem.clone());
            }
            (AddonComponent::Platform, Ok(false), _) => {
                return Self::Unsupported(missing("Service", &options.platform));
            }
            (AddonComponent::Uwl, Ok(false), _) | (AddonComponent::Uwl, _, Ok(false)) => {
                return Self::Absent;
            }
            _ => {}
        }
        let [platform_list, uwl_list] = &inputs.allowlists;
        let allowlist = match component {
            AddonComponent::Platform => platform_list,
            AddonComponent::Uwl => uwl_list,
        };
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

    pub(super) fn rollout(&self) -> Option<&str> {
        match self {
            Self::Running(manifests) => Some(&manifests.rollout),
            _ => None,
        }
    }
}
