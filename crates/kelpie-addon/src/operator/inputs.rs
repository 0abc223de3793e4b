//! The inputs of a reconciliation. They are read anew each time, without a cache.

use kelpie_core::addon::AddonComponent;
use kelpie_kube::objects::{ObjectClient, ObjectKind};
use serde_json::Value;
use tracing::warn;

use super::allowlist::{Allowlist, config_map_key};
use super::hub_info::HubInfo;
use super::openshift::OpenShift;
use super::options::OperatorOptions;
use super::problem::Problem;
use crate::confirmed_read::ConfirmedReader;
use crate::owned::{PROMETHEUS_RULE, SERVICE, SERVICE_MONITOR};

const SECRET: ObjectKind = ObjectKind::new("", "v1", "Secret", "secrets");
const CONFIG_MAP: ObjectKind = ObjectKind::new("", "v1", "ConfigMap", "configmaps");
pub(crate) const STATEFUL_SET: ObjectKind =
    ObjectKind::new("apps", "v1", "StatefulSet", "statefulsets");
pub(crate) const POD: ObjectKind = ObjectKind::new("", "v1", "Pod", "pods");

/// The Secret in which the hub describes itself.
const HUB_INFO: &str = "hub-info-secret";
/// The Secret with the collectors' client certificate.
pub(super) const CLIENT_CERTIFICATE: &str =
    "observability-controller-open-cluster-management.io-observability-signer-client-cert";
/// The Secret with the hub's certificate authority.
pub(super) const HUB_CA: &str = "observability-managed-cluster-certs";
/// The `ConfigMap` with the default allowlists.
const ALLOWLIST: &str = "observability-metrics-allowlist";
/// The `ConfigMap` with additions to the default allowlists, and removals from them.
const CUSTOM_ALLOWLIST: &str = "observability-metrics-custom-allowlist";

/// The inputs in the addon's own namespace.
pub(crate) const INPUT_OBJECTS: [(ObjectKind, &str); 5] = [
    (SECRET, HUB_INFO),
    (SECRET, CLIENT_CERTIFICATE),
    (SECRET, HUB_CA),
    (CONFIG_MAP, ALLOWLIST),
    (CONFIG_MAP, CUSTOM_ALLOWLIST),
];

/// The inputs of both collectors. Each is read on its own: the problem of one input concerns only
/// the collectors that need it. Arrays are in the order of [`AddonComponent::ALL`].
pub(super) struct ReconcileInputs {
    /// The collectors' objects, as they are now.
    pub(super) existing: [ExistingObjects; 2],
    /// The kinds of the Prometheus operator that the API server has.
    pub(super) monitoring_kinds: Result<Vec<ObjectKind>, Problem>,
    /// `None` if metrics are disabled: a collector is stopped whatever its other inputs are.
    pub(super) forwarding: Option<ForwardingInputs>,
}

/// The objects of a collector, after those of an earlier addon were deleted.
pub(super) struct ExistingObjects {
    pub(super) deployment: Result<Option<Value>, Problem>,
    /// The problem with reading or deleting the other objects.
    pub(super) others: Result<(), Problem>,
}

/// The inputs of collectors that should run.
pub(super) struct ForwardingInputs {
    pub(super) hub: Result<HubInfo, Problem>,
    pub(super) allowlists: [Result<Allowlist, Problem>; 2],
    /// True if the component's Prometheus exists.
    pub(super) sources: [Result<bool, Problem>; 2],
    /// The existing Secrets for TLS to the hub.
    pub(super) secrets: Result<Vec<&'static str>, Problem>,
    /// The ID of an OpenShift cluster; `None` on other platforms.
    pub(super) openshift: Result<Option<String>, Problem>,
}

/// Returns the kinds of the Prometheus operator that the API server has.
pub(super) async fn monitoring_kinds(objects: &ObjectClient) -> Result<Vec<ObjectKind>, Problem> {
    let mut kinds = Vec::new();
    for kind in [SERVICE_MONITOR, PROMETHEUS_RULE] {
        kinds.extend(objects.serves(kind).await?.then_some(kind));
    }
    Ok(kinds)
}

impl ForwardingInputs {
    pub(super) async fn read(
        reader: &ConfirmedReader,
        namespace: &str,
        options: &OperatorOptions,
        openshift: &mut OpenShift,
    ) -> Self {
        let get = async |kind: ObjectKind, namespace: &str, name: &str| {
            let found = reader.read(&kind.named(namespace, name)).await;
            found.map_err(Problem::from)
        };
        let exists = async |kind: ObjectKind, namespace: &str, name: &str| {
            let found = get(kind, namespace, name).await;
            found.map(|found| found.is_some())
        };
        let (platform, uwl) = (&options.platform, &options.uwl);
        let default = get(CONFIG_MAP, namespace, ALLOWLIST).await;
        let custom = get(CONFIG_MAP, namespace, CUSTOM_ALLOWLIST).await;
        let allowlist = |key: &str| allowlist(key, &default, &custom);
        let secrets = async {
            let mut found = Vec::new();
            for secret in [CLIENT_CERTIFICATE, HUB_CA] {
                let exists = exists(SECRET, namespace, secret).await?;
                found.extend(exists.then_some(secret));
            }
            Ok(found)
        };
        Self {
            hub: get(SECRET, namespace, HUB_INFO).await.and_then(hub_info),
            allowlists: AddonComponent::ALL.map(|component| allowlist(config_map_key(component))),
            sources: [
                exists(SERVICE, &platform.namespace, &platform.name).await,
                exists(STATEFUL_SET, &uwl.namespace, &uwl.name).await,
            ],
            secrets: secrets.await,
            openshift: openshift.read(reader).await,
        }
    }
}

fn hub_info(secret: Option<Value>) -> Result<HubInfo, Problem> {
    let Some(secret) = secret else {
        let problem = format!("there is no Secret {HUB_INFO}: the hub has to send it");
        return Err(Problem::Definite(problem));
    };
    HubInfo::read(&secret).map_err(|problem| {
        Problem::Definite(format!("the Secret {HUB_INFO} cannot be used: {problem}"))
    })
}

/// Merges the default and the custom allowlist under a key of the `ConfigMap`s.
fn allowlist(
    key: &str,
    default: &Result<Option<Value>, Problem>,
    custom: &Result<Option<Value>, Problem>,
) -> Result<Allowlist, Problem> {
    let Some(default) = default.as_ref().map_err(Problem::clone)? else {
        let problem = format!("there is no ConfigMap {ALLOWLIST}");
        return Err(Problem::Definite(problem));
    };
    let custom = custom.as_ref().map_err(Problem::clone)?.as_ref();
    let custom = custom.and_then(|custom| custom["data"][key].as_str());
    let default = default["data"][key].as_str().unwrap_or_default();
    let (list, problem) = Allowlist::read(default, custom).map_err(|problem| {
        let problem = format!("{key} of the ConfigMap {ALLOWLIST} cannot be used: {problem}");
        Problem::Definite(problem)
    })?;
    if let Some(problem) = problem {
        warn!("ignoring {key} of the ConfigMap {CUSTOM_ALLOWLIST}: {problem}");
    }
    if list.has_collect_rules {
        warn!("ignoring collect_rules in {key}: they are not supported");
    }
    Ok(list)
}
