//! The prober's file.

mod foresight;
mod target;
mod written;

use kelpie_core::{Fraction, Settings, Target, Thresholds};

use crate::key::{Table, key};
use crate::name;
use crate::problem::Report;
use crate::reader::{self, Section};
use crate::value::{MOST, Span, Value};
use crate::{Budget, Parsed, Strictness};

/// What the prober is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ProberConfig {
    /// A label for this set of probes.
    pub name: String,
    /// The one Cluster to look after; `None`: all of them.
    pub namespace: Option<String>,
    /// The Secret with the kubeconfig, in each cluster's control namespace.
    pub kubeconfig_secret: String,
    /// The Secret for the second probe over the external path, if that is wanted.
    pub external_kubeconfig_secret: Option<String>,
    /// How clusters are judged.
    pub probe: Settings,
    /// What is fenced, in the order of the file.
    pub targets: Vec<Target>,
}

impl ProberConfig {
    /// The time a fence has, from the trip to the first node turning `Unknown`.
    pub fn budget(&self) -> Budget {
        Budget::of(&self.probe)
    }
}

pub(crate) const ROOT: Table = Table {
    place: "at the top level",
    expected: "a map with at least kubeConfigSecretName and dependentResourceInfos",
    keys: &[
        key("name"),
        key("namespace"),
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
        key("dependentResourceInfos"),
    ],
    retired: &[
        (
            "apiServerProbeFailureBackoffDuration",
            "it is `internalProbeFailureBackoffDuration` now",
        ),
        (
            "leaseFailureThresholdFraction",
            "it is `nodeLeaseFailureFraction` now",
        ),
    ],
};

pub(crate) const TABLES: &[&Table] = &[&ROOT, &target::TARGET, &target::REFERENCE, &target::SCALE];

/// Reads the prober's file.
pub fn parse(bytes: &[u8], strictness: Strictness) -> Result<Parsed<ProberConfig>, Report> {
    reader::read(bytes, strictness, TABLES, |root| {
        let mut config = config(root);
        let targets = target::read(root);
        config.targets = targets.iter().map(|found| found.target.clone()).collect();
        if !root.reader.has_errors() {
            foresight::look(root, &config, &targets);
        }
        config
    })
}

/// Everything but the targets.
fn config(root: &Section<'_>) -> ProberConfig {
    let text = |name| {
        root.get(name)
            .and_then(|v| v.text("text"))
            .unwrap_or_default()
            .to_owned()
    };
    ProberConfig {
        name: text("name"),
        namespace: optional_name(root, "namespace", &name::LABEL),
        kubeconfig_secret: root
            .require(
                "kubeConfigSecretName",
                "the name of the Secret with the kubeconfig",
            )
            .and_then(|v| v.named(&name::OBJECT))
            .unwrap_or_default()
            .to_owned(),
        external_kubeconfig_secret: optional_name(
            root,
            "externalKubeConfigSecretName",
            &name::OBJECT,
        ),
        probe: settings(root),
        targets: Vec::new(),
    }
}

/// A name, for which an empty text is the same as none: Go cannot tell them apart.
fn optional_name(root: &Section<'_>, key: &str, rule: &name::Rule) -> Option<String> {
    let value = root.get(key)?;
    match value.text(rule.expected)? {
        "" => None,
        _ => value.named(rule).map(str::to_owned),
    }
}

fn settings(root: &Section<'_>) -> Settings {
    let default = Settings::default();
    let duration = |name, span: Span, default| {
        root.get(name)
            .and_then(|v| v.duration(span))
            .unwrap_or(default)
    };
    let count = |name, default| {
        root.get(name)
            .and_then(|v| v.whole(1..=MOST))
            .unwrap_or(default)
    };
    let (failure_fraction, recovery_fraction) = fractions(root, &default);
    Settings {
        probe_interval: duration("probeInterval", Span::AboveZero, default.probe_interval),
        initial_delay: duration("initialDelay", Span::ZeroOrMore, default.initial_delay),
        probe_timeout: duration("probeTimeout", Span::AboveZero, default.probe_timeout),
        jitter: root
            .get("backoffJitterFactor")
            .and_then(|v| {
                v.number("a number from 0 to 1", |n| {
                    (0.0..=1.0).contains(&n).then_some(n)
                })
            })
            .unwrap_or(default.jitter),
        api_thresholds: Thresholds {
            success: count("successThreshold", default.api_thresholds.success),
            failure: count("failureThreshold", default.api_thresholds.failure),
        },
        lease_thresholds: Thresholds {
            success: count("leaseSuccessThreshold", default.lease_thresholds.success),
            failure: count("leaseFailureThreshold", default.lease_thresholds.failure),
        },
        api_failure_pause: duration(
            "internalProbeFailureBackoffDuration",
            Span::ZeroOrMore,
            default.api_failure_pause,
        ),
        grace: duration(
            "kcmNodeMonitorGraceDuration",
            Span::AboveZero,
            default.grace,
        ),
        failure_fraction,
        recovery_fraction,
        fence_reserve: duration("fenceReserve", Span::ZeroOrMore, default.fence_reserve),
        min_candidates: count("minCandidateNodes", default.min_candidates),
    }
}

/// The failure fraction, and the recovery fraction, which may not be above it.
fn fractions(root: &Section<'_>, default: &Settings) -> (Fraction, Fraction) {
    let read =
        |v: &Value<'_>| v.number("a number above 0 and at most 1, such as 0.6", Fraction::new);
    let failure = match root.get("nodeLeaseFailureFraction") {
        None => Some(default.failure_fraction),
        Some(value) => read(&value),
    };
    let recovery = root.get("nodeLeaseRecoveryFraction").and_then(|value| {
        let recovery = read(&value)?;
        match failure {
            Some(failure) if recovery > failure => {
                let most = failure.get();
                value.refuse(format!("at most the nodeLeaseFailureFraction, {most}"));
                None
            }
            _ => Some(recovery),
        }
    });
    let failure = failure.unwrap_or(default.failure_fraction);
    (failure, recovery.unwrap_or(failure))
}
