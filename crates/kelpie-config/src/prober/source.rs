//! `source`: the platform whose clusters are probed.

use std::time::Duration;

use serde::Serialize;

use super::optional_name;
use crate::name_format;
use crate::parse::Section;
use crate::schema::{MapSchema, Shape, key};
use crate::selector::{self, LabelSelector};
use crate::value::ConfigValue;

/// The platform whose clusters are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceConfig {
    /// The Clusters of a Gardener seed.
    Gardener {
        /// The Secret with the kubeconfig in each cluster's control namespace.
        kubeconfig_secret: String,
        /// The Secret for a second probe over the external path; `None` disables that probe.
        external_kubeconfig_secret: Option<String>,
    },
    /// The Clusters of a Cluster API management cluster.
    ClusterApi,
    /// Kubeconfig Secrets, each of which stands for a cluster.
    Secrets(SecretsConfig),
}

/// The kubeconfig Secrets that stand for clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretsConfig {
    /// The labels of the Secrets.
    pub label_selector: LabelSelector,
    /// The key of the kubeconfig in each Secret.
    pub key: String,
}

/// The grace period of kube-controller-manager from Kubernetes 1.32 on, unless a flag sets another.
/// The default of the configuration is that of older versions: a fence that comes too early does
/// less harm than one that comes too late.
pub const GRACE_SINCE_1_32: Duration = Duration::from_secs(50);

pub(crate) const SOURCE: MapSchema = MapSchema {
    location: "under `source`",
    expected: "a map with one of gardener, clusterAPI, secrets",
    keys: &[
        key("gardener").shaped(Shape::EmptyMap),
        key("clusterAPI").shaped(Shape::EmptyMap),
        key("secrets").shaped(Shape::Map(&SECRETS)),
    ],
    removed: &[],
};

pub(crate) const SECRETS: MapSchema = MapSchema {
    location: "under `source.secrets`",
    expected: "a map with labelSelector and, if it is not kubeconfig, key",
    keys: &[
        key("labelSelector").shaped(Shape::Map(&LABEL_SELECTOR)),
        key("key"),
    ],
    removed: &[],
};

pub(crate) const LABEL_SELECTOR: MapSchema = MapSchema {
    location: "under `source.secrets.labelSelector`",
    expected: "a map with matchLabels or matchExpressions",
    keys: &selector::SELECTOR_KEYS,
    removed: &[],
};

/// The key of a kubeconfig, unless the file names another.
const DEFAULT_KEY: &str = "kubeconfig";
/// The top-level keys that are about Gardener's Secrets.
const SECRET_NAMES: [&str; 2] = ["kubeConfigSecretName", "externalKubeConfigSecretName"];

/// Reads the source. The default is Gardener, whose Secrets have keys at the top level.
pub(super) fn parse(root: &Section<'_>) -> SourceConfig {
    let Some(value) = root.get("source") else {
        return gardener(root);
    };
    let rejected = value.problem("names more than one source, or none");
    let Some(section) = value.section(&SOURCE) else {
        return SourceConfig::ClusterApi;
    };
    let named = |name| section.get(name);
    let source = match (named("gardener"), named("clusterAPI"), named("secrets")) {
        (Some(gardener), None, None) => {
            reject_settings(&gardener);
            return self::gardener(root);
        }
        (None, Some(cluster_api), None) => {
            reject_settings(&cluster_api);
            SourceConfig::ClusterApi
        }
        (None, None, Some(secrets)) => {
            let Some(secrets) = self::secrets(secrets) else {
                return SourceConfig::ClusterApi;
            };
            SourceConfig::Secrets(secrets)
        }
        _ => {
            let hint = "write {} for a source without settings: `clusterAPI: {}`";
            root.context
                .report(rejected.expected(SOURCE.expected).hint(hint));
            return SourceConfig::ClusterApi;
        }
    };
    for name in SECRET_NAMES {
        if let Some(value) = root.get(name) {
            let problem = value.problem("names a Secret of Gardener, which is not the source");
            value.report(problem.hint("remove it: the source says where the kubeconfigs are"));
        }
    }
    source
}

fn gardener(root: &Section<'_>) -> SourceConfig {
    let [internal, external] = SECRET_NAMES;
    SourceConfig::Gardener {
        kubeconfig_secret: root
            .require(internal, "the name of the Secret with the kubeconfig")
            .and_then(|v| v.formatted(&name_format::DNS_SUBDOMAIN))
            .unwrap_or_default()
            .to_owned(),
        external_kubeconfig_secret: optional_name(root, external, &name_format::DNS_SUBDOMAIN),
    }
}

fn secrets(value: ConfigValue<'_>) -> Option<SecretsConfig> {
    let section = value.section(&SECRETS)?;
    let label_selector = section
        .require("labelSelector", LABEL_SELECTOR.expected)
        .and_then(|value| {
            let empty = "the selector is empty: every Secret of the seed would stand for a cluster";
            selector::parse(value, &LABEL_SELECTOR, empty)
        });
    let key = section.get_or("key", DEFAULT_KEY, |v| {
        v.formatted(&name_format::SECRET_KEY)
    });
    Some(SecretsConfig {
        label_selector: label_selector?,
        key: key.to_owned(),
    })
}

/// Rejects anything but an empty map.
fn reject_settings(value: &ConfigValue<'_>) {
    const EXPECTED: &str = "an empty map, {}: this source has no settings here";
    if value
        .entries(EXPECTED)
        .is_some_and(|entries| !entries.is_empty())
    {
        value.reject(EXPECTED);
    }
}
