//! The prober's configuration file.

mod guard;
mod lint;
mod serialize;
mod shard;
mod source;
mod target;

use kelpie_core::Fraction;
use kelpie_core::prober::guard::GuardSettings;
use kelpie_core::prober::{ProbeSettings, Target, Thresholds};

use crate::name_format::{self, NameFormat};
use crate::parse::{self, Section};
use crate::problem::ConfigError;
use crate::schema::{MapSchema, Shape, key};
use crate::selector::{self, LabelSelector};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};
use crate::{FenceBudget, JsonSchema, Parsed, Strictness};
pub use shard::parse_selector;
pub use source::{GRACE_SINCE_1_32, SecretsConfig, SourceConfig};

/// The prober's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ProberConfig {
    /// A label for this set of probes; may be empty.
    pub name: String,
    /// The platform whose clusters are probed.
    pub source: SourceConfig,
    /// The only namespace whose clusters are probed; `None` probes all of them. In Gardener it is
    /// also the name of the Cluster.
    pub namespace: Option<String>,
    /// The clusters of this prober, which is one of several; `None` if there are no others.
    pub shard: Option<ShardConfig>,
    /// The file sets no grace period, and that of a cluster follows from its version.
    pub grace_follows_version: bool,
    /// The thresholds and periods by which clusters are judged.
    pub probe: ProbeSettings,
    /// The guard of each cluster; `None` if it is off.
    pub guard: Option<GuardSettings>,
    /// The controllers to fence, in file order.
    pub targets: Vec<Target>,
}

/// One of several probers, each of which watches a part of the clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardConfig {
    /// The name of the shard, which no other one has.
    pub name: String,
    /// The labels of the clusters that it watches.
    pub selector: LabelSelector,
}

impl ProberConfig {
    /// Returns the time between the trip and the first node turning `Unknown`.
    pub fn fence_budget(&self) -> FenceBudget {
        FenceBudget::of(&self.probe)
    }
}

pub(crate) const ROOT: MapSchema = MapSchema {
    location: "at the top level",
    expected: "a map with at least kubeConfigSecretName and dependentResourceInfos",
    keys: &[
        key("name"),
        key("source").shaped(Shape::Map(&source::SOURCE)),
        key("namespace"),
        key("clusterSelector").shaped(Shape::Map(&shard::CLUSTER_SELECTOR)),
        key("kubeConfigSecretName").or("internalKubeConfigSecretName"),
        key("externalKubeConfigSecretName"),
        key("probeInterval"),
        key("initialDelay"),
        key("probeTimeout"),
        key("backoffJitterFactor").or("backOffJitterFactor"),
        key("successThreshold"),
        key("failureThreshold"),
        key("leaseSuccessThreshold"),
        key("leaseFailureThreshold"),
        key("internalProbeFailureBackoffDuration").or("internalProbeFailureBackOffDuration"),
        key("kcmNodeMonitorGraceDuration"),
        key("nodeLeaseFailureFraction"),
        key("nodeLeaseRecoveryFraction"),
        key("fenceReserve"),
        key("minCandidateNodes"),
        key("guard").shaped(Shape::Map(&guard::GUARD)),
        key("dependentResourceInfos").shaped(Shape::ListOf(&target::TARGET)),
    ],
    removed: &[
        (
            "apiServerProbeFailureBackoffDuration",
            "it was renamed to `internalProbeFailureBackoffDuration`",
        ),
        (
            "leaseFailureThresholdFraction",
            "it was renamed to `nodeLeaseFailureFraction`",
        ),
    ],
};

/// The JSON schema of the file.
pub const JSON_SCHEMA: JsonSchema = JsonSchema(&ROOT);

pub(crate) const SCHEMAS: &[&MapSchema] = &[
    &ROOT,
    &source::SOURCE,
    &source::SECRETS,
    &source::LABEL_SELECTOR,
    &selector::EXPRESSION,
    &guard::GUARD,
    &guard::GROUP,
    &target::TARGET,
    &target::REFERENCE,
    &target::SCALE,
    &shard::CLUSTER_SELECTOR,
];

/// Parses the prober's file, or the `ConfigMap` that holds it.
pub fn parse(bytes: &[u8], strictness: Strictness) -> Result<Parsed<ProberConfig>, ConfigError> {
    parse::parse_file(bytes, strictness, SCHEMAS, |root| {
        let mut config = config(root);
        let targets = target::parse(root, &config.source, config.guard.is_some());
        config.targets = targets.iter().map(|parsed| parsed.target.clone()).collect();
        if !root.context.has_errors() {
            lint::check(root, &config, &targets);
        }
        config
    })
}

/// Reads all settings except the targets.
fn config(root: &Section<'_>) -> ProberConfig {
    let source = source::parse(root);
    ProberConfig {
        name: name(root),
        namespace: optional_name(root, "namespace", &name_format::DNS_LABEL),
        shard: shard::parse(root),
        grace_follows_version: !matches!(source, SourceConfig::Gardener { .. })
            && root.get("kcmNodeMonitorGraceDuration").is_none(),
        source,
        probe: settings(root),
        guard: guard::parse(root),
        targets: Vec::new(),
    }
}

/// Reads the name of this set of probes. It is a part of the name of its Lease, except in the place
/// of dependency-watchdog, which allows any text.
fn name(root: &Section<'_>) -> String {
    match root.context.strictness() {
        Strictness::Strict => optional_name(root, "name", &name_format::DNS_LABEL),
        Strictness::Lenient => root
            .get("name")
            .and_then(|value| value.string("a string"))
            .map(str::to_owned),
    }
    .unwrap_or_default()
}

/// Reads an optional name. An empty string counts as unset, because Go cannot tell them apart.
fn optional_name(root: &Section<'_>, key: &str, format: &NameFormat) -> Option<String> {
    let value = root.get(key)?;
    match value.string(format.expected)? {
        "" => None,
        _ => value.formatted(format).map(str::to_owned),
    }
}

fn settings(root: &Section<'_>) -> ProbeSettings {
    let default = ProbeSettings::default();
    let positive =
        |name, default| root.get_or(name, default, |v| v.duration(DurationRange::Positive));
    let non_negative =
        |name, default| root.get_or(name, default, |v| v.duration(DurationRange::NonNegative));
    let count = |name, default| root.get_or(name, default, |v| v.integer(1..=MAX_COUNT));
    let (failure_fraction, recovery_fraction) = fractions(root, &default);
    ProbeSettings {
        probe_interval: positive("probeInterval", default.probe_interval),
        initial_delay: non_negative("initialDelay", default.initial_delay),
        probe_timeout: positive("probeTimeout", default.probe_timeout),
        jitter: root.get_or("backoffJitterFactor", default.jitter, |v| {
            v.number("a number from 0 to 1", |n| {
                (0.0..=1.0).contains(&n).then_some(n)
            })
        }),
        api_thresholds: Thresholds {
            success: count("successThreshold", default.api_thresholds.success),
            failure: count("failureThreshold", default.api_thresholds.failure),
        },
        lease_thresholds: Thresholds {
            success: count("leaseSuccessThreshold", default.lease_thresholds.success),
            failure: count("leaseFailureThreshold", default.lease_thresholds.failure),
        },
        api_failure_pause: non_negative(
            "internalProbeFailureBackoffDuration",
            default.api_failure_pause,
        ),
        grace: positive("kcmNodeMonitorGraceDuration", default.grace),
        failure_fraction,
        recovery_fraction,
        fence_reserve: non_negative("fenceReserve", default.fence_reserve),
        min_candidates: count("minCandidateNodes", default.min_candidates),
    }
}

/// Reads the failure fraction and the recovery fraction, which must not exceed it.
fn fractions(root: &Section<'_>, default: &ProbeSettings) -> (Fraction, Fraction) {
    let parse = |v: &ConfigValue<'_>| {
        v.number("a number above 0 and at most 1, such as 0.6", Fraction::new)
    };
    let failure = match root.get("nodeLeaseFailureFraction") {
        None => Some(default.failure_fraction),
        Some(value) => parse(&value),
    };
    let recovery = root.get("nodeLeaseRecoveryFraction").and_then(|value| {
        let recovery = parse(&value)?;
        match failure {
            Some(failure) if recovery > failure => {
                let max = failure.get();
                value.reject(format!("at most the nodeLeaseFailureFraction, {max}"));
                None
            }
            _ => Some(recovery),
        }
    });
    let failure = failure.unwrap_or(default.failure_fraction);
    (failure, recovery.unwrap_or(failure))
}
