//! The inputs of a reconciliation. They are read anew each time, without a cache.

use kelpie_core::addon::AddonComponent;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use serde_json::Value;
use tracing::warn;

use super::allowlist::{Allowlist, config_map_key};
use super::hub_info::HubInfo;
use super::manifest::deployment_name;
use super::options::OperatorOptions;
use crate::owned::{DEPLOYMENT, PROMETHEUS_RULE, SERVICE, SERVICE_MONITOR};

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

/// The inputs of both collectors. An input that is missing or broken is an error message. Arrays
/// are in the order of [`AddonComponent::ALL`].
pub(super) struct ReconcileInputs {
    pub(super) hub: Result<HubInfo, String>,
    pub(super) allowlists: [Result<Allowlist, String>; 2],
    /// True if the component's Prometheus exists.
    pub(super) sources: [Result<bool, String>; 2],
    /// The collectors' Deployments, as they are now.
    pub(super) deployments: [Option<Value>; 2],
    /// The existing Secrets for TLS to the hub.
    pub(super) secrets: Vec<&'static str>,
    /// The kinds of the Prometheus operator that the API server has.
    pub(super) monitoring_kinds: Vec<ObjectKind>,
}

impl ReconcileInputs {
    /// Reads the inputs. An error aborts the reconciliation; the problem of a single input does
    /// not.
    pub(super) async fn read(
        objects: &ObjectClient,
        namespace: &str,
        options: &OperatorOptions,
    ) -> Result<Self, ObjectError> {
        let get =
            async |kind: ObjectKind, name: &str| objects.get(&kind.named(namespace, name)).await;
        let exists = async |kind: ObjectKind, namespace: &str, name: &str| {
            let found = objects.get(&kind.named(namespace, name)).await;
            found
                .map(|found| found.is_some())
                .map_err(|error| error.to_string())
        };
        let (platform, uwl) = (&options.platform, &options.uwl);
        let mut deployments = [None, None];
        for (deployment, component) in deployments.iter_mut().zip(AddonComponent::ALL) {
            *deployment = get(DEPLOYMENT, deployment_name(component)).await?;
        }
        let mut secrets = Vec::new();
        for secret in [CLIENT_CERTIFICATE, HUB_CA] {
            secrets.extend(get(SECRET, secret).await?.map(|_| secret));
        }
        let mut monitoring_kinds = Vec::new();
        for kind in [SERVICE_MONITOR, PROMETHEUS_RULE] {
            monitoring_kinds.extend(objects.serves(kind).await?.then_some(kind));
        }
        let default = get(CONFIG_MAP, ALLOWLIST).await;
        let custom = get(CONFIG_MAP, CUSTOM_ALLOWLIST).await;
        let allowlist = |key: &str| allowlist(key, &default, &custom);
        Ok(Self {
            hub: match get(SECRET, HUB_INFO).await {
                Ok(Some(secret)) => HubInfo::read(&secret)
                    .map_err(|problem| format!("the Secret {HUB_INFO} cannot be used: {problem}")),
                Ok(None) => Err(format!(
                    "there is no Secret {HUB_INFO}: the hub has to send it"
                )),
                Err(error) => Err(error.to_string()),
            },
            allowlists: AddonComponent::ALL.map(|component| allowlist(config_map_key(component))),
            sources: [
                exists(SERVICE, &platform.namespace, &platform.name).await,
                exists(STATEFUL_SET, &uwl.namespace, &uwl.name).await,
            ],
            deployments,
            secrets,
            monitoring_kinds,
        })
    }
}

/// Merges the default and the custom allowlist under a key of the `ConfigMap`s.
fn allowlist(
    key: &str,
    default: &Result<Option<Value>, ObjectError>,
    custom: &Result<Option<Value>, ObjectError>,
) -> Result<Allowlist, String> {
    let default = match default {
        Ok(Some(default)) => default,
        Ok(None) => return Err(format!("there is no ConfigMap {ALLOWLIST}")),
        Err(error) => return Err(error.to_string()),
    };
    let custom = match custom {
        Ok(custom) => custom
            .as_ref()
            .and_then(|custom| custom["data"][key].as_str()),
        Err(error) => return Err(error.to_string()),
    };
    let default = default["data"][key].as_str().unwrap_or_default();
    let (list, problem) = Allowlist::read(default, custom).map_err(|problem| {
        format!("{key} of the ConfigMap {ALLOWLIST} cannot be used: {problem}")
    })?;
    if let Some(problem) = problem {
        warn!("ignoring {key} of the ConfigMap {CUSTOM_ALLOWLIST}: {problem}");
    }
    if list.has_collect_rules {
        warn!("ignoring collect_rules in {key}: they are not supported");
    }
    Ok(list)
}
