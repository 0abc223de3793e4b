//! What a pass finds. Every input is read anew: nothing that was true before counts.

use kelpie_core::addon::Component;
use kelpie_kube::objects::{CallError, Kind, Objects};
use serde_json::Value;
use tracing::warn;

use super::allowlist::{Allowlist, key};
use super::hub_info::HubInfo;
use super::manifest::deployment_name;
use super::settings::OperatorOptions;
use crate::made::{DEPLOYMENT, MONITOR, RULE, SERVICE};

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");
const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
pub(crate) const STATEFUL_SET: Kind = Kind::new("apps", "v1", "StatefulSet", "statefulsets");
pub(crate) const POD: Kind = Kind::new("", "v1", "Pod", "pods");

/// What the hub told the spoke.
const HUB_INFO: &str = "hub-info-secret";
/// The collectors' client certificate.
pub(super) const CLIENT_CERTIFICATE: &str =
    "observability-controller-open-cluster-management.io-observability-signer-client-cert";
/// The hub's authority.
pub(super) const AUTHORITY: &str = "observability-managed-cluster-certs";
/// What is collected.
const ALLOWLIST: &str = "observability-metrics-allowlist";
/// What is collected more, or less.
const CUSTOM_ALLOWLIST: &str = "observability-metrics-custom-allowlist";

/// The objects in the addon's own namespace that collectors are made from.
pub(crate) const INPUTS: [(Kind, &str); 5] = [
    (SECRET, HUB_INFO),
    (SECRET, CLIENT_CERTIFICATE),
    (SECRET, AUTHORITY),
    (CONFIG_MAP, ALLOWLIST),
    (CONFIG_MAP, CUSTOM_ALLOWLIST),
];

/// Inputs, each as good as it could be read.
pub(super) struct World {
    pub(super) hub: Result<HubInfo, String>,
    /// Of both components.
    pub(super) lists: [Result<Allowlist, String>; 2],
    /// Whether the Prometheus of each component is there.
    pub(super) sources: [Result<bool, String>; 2],
    /// Each collector's Deployment as it is.
    pub(super) deployments: [Option<Value>; 2],
    /// Which of the Secrets for TLS to the hub are there.
    pub(super) secrets: Vec<&'static str>,
    /// Which of the Prometheus operator's kinds are there.
    pub(super) kinds: Vec<Kind>,
}

impl World {
    /// An error: the pass cannot go on. What is wrong with an input alone is part of the world.
    pub(super) async fn read(
        objects: &Objects,
        namespace: &str,
        options: &OperatorOptions,
    ) -> Result<Self, CallError> {
        let get = async |kind: Kind, name: &str| objects.get(&kind.named(namespace, name)).await;
        let is_there = async |kind: Kind, namespace: &str, name: &str| {
            let found = objects.get(&kind.named(namespace, name)).await;
            found
                .map(|found| found.is_some())
                .map_err(|error| error.to_string())
        };
        let (platform, uwl) = (&options.platform, &options.uwl);
        let mut deployments = [None, None];
        for (deployment, component) in deployments.iter_mut().zip(Component::ALL) {
            *deployment = get(DEPLOYMENT, deployment_name(component)).await?;
        }
        let mut secrets = Vec::new();
        for secret in [CLIENT_CERTIFICATE, AUTHORITY] {
            secrets.extend(get(SECRET, secret).await?.map(|_| secret));
        }
        let mut kinds = Vec::new();
        for kind in [MONITOR, RULE] {
            kinds.extend(objects.serves(kind).await?.then_some(kind));
        }
        let default = get(CONFIG_MAP, ALLOWLIST).await;
        let custom = get(CONFIG_MAP, CUSTOM_ALLOWLIST).await;
        let list = |key: &str| allowlist(key, &default, &custom);
        Ok(Self {
            hub: match get(SECRET, HUB_INFO).await {
                Ok(Some(secret)) => HubInfo::read(&secret)
                    .map_err(|problem| format!("the Secret {HUB_INFO} cannot be used: {problem}")),
                Ok(None) => Err(format!(
                    "there is no Secret {HUB_INFO}: the hub has to send it"
                )),
                Err(error) => Err(error.to_string()),
            },
            lists: Component::ALL.map(|component| list(key(component))),
            sources: [
                is_there(SERVICE, &platform.namespace, &platform.name).await,
                is_there(STATEFUL_SET, &uwl.namespace, &uwl.name).await,
            ],
            deployments,
            secrets,
            kinds,
        })
    }
}

/// The list under this key, of the default list and the custom one.
fn allowlist(
    key: &str,
    default: &Result<Option<Value>, CallError>,
    custom: &Result<Option<Value>, CallError>,
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
        warn!("{key} of the ConfigMap {CUSTOM_ALLOWLIST} is left out: {problem}");
    }
    if list.has_collect_rules {
        warn!("collect_rules in {key} are left out: they are not supported");
    }
    Ok(list)
}
