//! Serializes a prober configuration in the format of its file, so that it can be parsed again.

use kelpie_core::prober::guard::GroupHold;
use kelpie_core::prober::{ActuatorKind, FlowRule, ProbeSettings, ResourceRef, Setting, Target};
use serde::{Serialize, Serializer};

use super::target::ACTUATORS;
use super::{ProberConfig, SecretsConfig, SourceConfig};
use crate::{GoDuration, LabelSelector};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProberFile<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceEntry<'a>>,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_selector: Option<&'a LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kube_config_secret_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_kube_config_secret_name: Option<&'a str>,
    probe_interval: GoDuration,
    initial_delay: GoDuration,
    probe_timeout: GoDuration,
    backoff_jitter_factor: f64,
    success_threshold: u32,
    failure_threshold: u32,
    lease_success_threshold: u32,
    lease_failure_threshold: u32,
    internal_probe_failure_backoff_duration: GoDuration,
    #[serde(skip_serializing_if = "Option::is_none")]
    kcm_node_monitor_grace_duration: Option<GoDuration>,
    node_lease_failure_fraction: f64,
    node_lease_recovery_fraction: f64,
    fence_reserve: GoDuration,
    min_candidate_nodes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<GuardEntry>,
    dependent_resource_infos: Vec<TargetEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum SourceEntry<'a> {
    #[serde(rename = "clusterAPI")]
    ClusterApi {},
    Secrets(&'a SecretsConfig),
}

#[derive(Serialize)]
struct GuardEntry {
    enabled: bool,
    duration: GoDuration,
    zone: GroupEntry,
    pool: GroupEntry,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupEntry {
    hold: GoDuration,
    min_nodes: u32,
}

impl From<GroupHold> for GroupEntry {
    fn from(group: GroupHold) -> Self {
        Self {
            hold: GoDuration(group.hold),
            min_nodes: group.min_nodes,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TargetEntry<'a> {
    r#ref: &'a ResourceRef,
    optional: bool,
    actuator: &'static str,
    deadline_target: bool,
    scale_up: ScaleEntry,
    scale_down: ScaleEntry,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScaleEntry {
    level: u32,
    initial_delay: GoDuration,
    timeout: GoDuration,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<Setting>,
}

impl Serialize for ProberConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let probe: &ProbeSettings = &self.probe;
        let (source, kube_config_secret_name, external_kube_config_secret_name) = match &self.source
        {
            SourceConfig::Gardener {
                kubeconfig_secret,
                external_kubeconfig_secret,
            } => (
                None,
                Some(kubeconfig_secret.as_str()),
                external_kubeconfig_secret.as_deref(),
            ),
            SourceConfig::ClusterApi => (Some(SourceEntry::ClusterApi {}), None, None),
            SourceConfig::Secrets(secrets) => (Some(SourceEntry::Secrets(secrets)), None, None),
        };
        let file = ProberFile {
            name: &self.name,
            source,
            namespace: self.namespace.as_deref().unwrap_or_default(),
            cluster_selector: self.shard.as_ref().map(|shard| &shard.selector),
            kube_config_secret_name,
            external_kube_config_secret_name,
            probe_interval: GoDuration(probe.probe_interval),
            initial_delay: GoDuration(probe.initial_delay),
            probe_timeout: GoDuration(probe.probe_timeout),
            backoff_jitter_factor: probe.jitter,
            success_threshold: probe.api_thresholds.success,
            failure_threshold: probe.api_thresholds.failure,
            lease_success_threshold: probe.lease_thresholds.success,
            lease_failure_threshold: probe.lease_thresholds.failure,
            internal_probe_failure_backoff_duration: GoDuration(probe.api_failure_pause),
            kcm_node_monitor_grace_duration: (!self.grace_follows_version)
                .then_some(GoDuration(probe.grace)),
            node_lease_failure_fraction: probe.failure_fraction.get(),
            node_lease_recovery_fraction: probe.recovery_fraction.get(),
            fence_reserve: GoDuration(probe.fence_reserve),
            min_candidate_nodes: probe.min_candidates,
            guard: self.guard.as_ref().map(|guard| GuardEntry {
                enabled: true,
                duration: GoDuration(guard.duration),
                zone: guard.zone.into(),
                pool: guard.pool.into(),
            }),
            dependent_resource_infos: self.targets.iter().map(TargetEntry::from).collect(),
        };
        file.serialize(serializer)
    }
}

impl<'a> From<&'a Target> for TargetEntry<'a> {
    fn from(target: &'a Target) -> Self {
        Self {
            r#ref: &target.resource,
            optional: target.optional,
            actuator: actuator_name(target.actuator),
            deadline_target: target.is_deadline_target,
            scale_up: target.up.into(),
            scale_down: target.down.into(),
        }
    }
}

impl From<FlowRule> for ScaleEntry {
    fn from(rule: FlowRule) -> Self {
        Self {
            level: rule.level,
            initial_delay: GoDuration(rule.initial_delay),
            timeout: GoDuration(rule.timeout),
            replicas: rule.setting,
        }
    }
}

fn actuator_name(kind: ActuatorKind) -> &'static str {
    let mut actuators = ACTUATORS.iter();
    let found = actuators.find(|(_, actuator)| *actuator == kind);
    found.map_or("", |(name, _)| name)
}
