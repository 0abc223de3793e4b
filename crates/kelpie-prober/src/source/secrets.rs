//! Kubeconfig Secrets, each of which stands for a cluster, for platforms without a source of their
//! own.

use std::future;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use kelpie_config::{ProberConfig, SecretsConfig};
use kelpie_core::prober::{NodeConventions, PoolConditions};
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::events::ObjectRef;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::{Field, FieldPath};
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};
use kelpie_kube::resources::kubeconfig_of;
use kelpie_kube::watch::{OptionalEvent, Selection, WatchEvent, WatchedResource};
use serde_json::Value;

use super::grace_period::{self, GRACE_ANNOTATION};
use super::labels::LABELS;
use super::{
    ClusterIdentity, ClusterKubeconfig, ClusterLabels, ClusterMachine, ClusterObject,
    ClusterSource, ClusterSpec, Eligibility, ProbePath, SecretDescription, SourceTexts,
    UNHEALTHY_CONDITIONS, map_apply, namespaced_id,
};

const DELETED: &str = "its Secret is being deleted";

/// Kubeconfig Secrets by label.
#[derive(Clone, Debug)]
pub(crate) struct SecretSource {
    /// Only the Secrets of this namespace.
    namespace: Option<String>,
    labels: String,
    key: String,
}

impl SecretSource {
    pub(crate) fn new(config: &ProberConfig, secrets: &SecretsConfig) -> Self {
        Self {
            namespace: config.namespace.clone(),
            labels: secrets.label_selector.to_string(),
            key: secrets.key.clone(),
        }
    }

    fn selection(&self) -> Selection<'_> {
        Selection {
            namespace: self.namespace.as_deref(),
            labels: Some(&self.labels),
            ..Selection::default()
        }
    }
}

/// A Secret as the cluster that it stands for.
#[derive(Clone, Debug)]
struct SecretCluster(ClusterObject);

const SECRET: ObjectKind = ObjectKind::new("", "v1", "Secret", "secrets");

impl WatchedResource for SecretCluster {
    const KIND: ObjectKind = SECRET;
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "uid"],
        LABELS,
        &["metadata", "deletionTimestamp"],
        &["metadata", "annotations", GRACE_ANNOTATION],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let grace = grace_period::read_annotation(&Field::new("", object));
        let is_deleted = !metadata["deletionTimestamp"].is_null();
        Self(ClusterObject {
            identity: ClusterIdentity {
                id: namespaced_id::id(namespace, name).into(),
                namespace: namespace.into(),
                object: ObjectRef {
                    api_version: SECRET.api_version(),
                    kind: SECRET.kind.to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid: metadata["uid"].as_str().map(str::to_owned),
                },
            },
            spec: grace.map(|grace| ClusterSpec {
                eligibility: if is_deleted {
                    Eligibility::Remove(DELETED)
                } else {
                    Eligibility::Run
                },
                grace,
                pools: PoolConditions::new(),
            }),
            labels: ClusterLabels::read(object),
        })
    }
}

/// The content of a Secret. It lives until the kubeconfig was taken from it.
#[derive(Clone)]
struct SecretContent {
    namespace: String,
    name: String,
    object: Value,
}

impl std::fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The content is secret.
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

impl WatchedResource for SecretContent {
    const KIND: ObjectKind = SECRET;
    const FIELDS: &'static [FieldPath] = &[&["data"]];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            object: object.clone(),
        }
    }
}

impl SecretContent {
    fn kubeconfig(&self, key: &str) -> ClusterKubeconfig {
        ClusterKubeconfig {
            cluster: namespaced_id::id(&self.namespace, &self.name),
            text: kubeconfig_of(&self.object, key),
        }
    }
}

impl ClusterSource for SecretSource {
    fn clusters(&self, seed: &ClusterClient) -> BoxStream<'static, WatchEvent<ClusterObject>> {
        let events = seed.watch::<SecretCluster>(self.selection());
        let events = events
            .map(|event| namespaced_id::with_deleted_id(map_apply(event, |cluster| cluster.0)));
        events.boxed()
    }

    fn kubeconfigs(
        &self,
        seed: &ClusterClient,
        path: ProbePath,
    ) -> Option<BoxStream<'static, WatchEvent<ClusterKubeconfig>>> {
        let key = self.key.clone();
        let events = || seed.watch::<SecretContent>(self.selection());
        let is_probed = self.probes(path);
        is_probed.then(|| {
            let events = events().map(move |event| {
                let event = map_apply(event, |secret| secret.kubeconfig(&key));
                namespaced_id::with_deleted_id(event)
            });
            events.boxed()
        })
    }

    fn probes(&self, path: ProbePath) -> bool {
        path == ProbePath::Internal
    }

    fn has_machines(&self) -> bool {
        false
    }

    fn read_kubeconfig(
        &self,
        seed: &ClusterClient,
        cluster: &str,
        path: ProbePath,
    ) -> BoxFuture<'static, Result<Option<ClusterKubeconfig>, ApiError>> {
        if !self.probes(path) {
            return future::ready(Ok(None)).boxed();
        }
        let (namespace, name) = namespaced_id::parts(cluster);
        let key = self.key.clone();
        let list = seed.list_now::<SecretContent>(Selection {
            namespace: Some(namespace),
            name: Some(name),
            labels: Some(&self.labels),
        });
        async move {
            let secrets = list.await?;
            Ok(secrets.first().map(|secret| secret.kubeconfig(&key)))
        }
        .boxed()
    }

    fn machines(
        &self,
        _seed: &ClusterClient,
    ) -> Option<BoxStream<'static, OptionalEvent<ClusterMachine>>> {
        None
    }

    fn kind(&self, _api_version: &str) -> ObjectKind {
        SECRET
    }

    fn policy_rules(&self) -> Vec<PolicyRule> {
        let reason = "the kubeconfigs of the clusters; RBAC cannot restrict Secrets by label, and \
                      only those with the configured labels are requested";
        let secrets = PolicyRule::new(WATCH_VERBS, ("", "secrets"), reason);
        vec![secrets.in_namespace(self.namespace.as_deref())]
    }

    fn node_conventions(&self) -> NodeConventions {
        NodeConventions {
            unhealthy_conditions: UNHEALTHY_CONDITIONS,
            ..NodeConventions::default()
        }
    }

    fn texts(&self) -> SourceTexts {
        SourceTexts {
            clusters: "Secrets of clusters",
            deleted: "its Secret was deleted, or lost its label",
            no_kubeconfig: "the cluster has no kubeconfig Secret",
            no_such_cluster: "no such Secret with the configured labels",
            list_command: "kubectl get secrets --all-namespaces --selector …",
            rbac_file: "what `kelpie generate rbac-prober-seed --config-file FILE` prints",
        }
    }

    fn describe_secret(&self, cluster: &str, _path: ProbePath) -> SecretDescription {
        let (namespace, name) = namespaced_id::parts(cluster);
        SecretDescription {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            remedy_if_missing: "check source.secrets.labelSelector".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_stands_for_a_cluster() {
        let object = json!({ "metadata": {
            "uid": "u", "annotations": { GRACE_ANNOTATION: "50s" },
        } });
        let SecretCluster(cluster) = SecretCluster::read("ns", "vc-a", &object);
        assert_eq!(&*cluster.identity.id, "ns/vc-a");
        assert_eq!(cluster.identity.object.uid.as_deref(), Some("u"));
        let spec = cluster.spec.unwrap();
        assert_eq!(spec.eligibility, Eligibility::Run);
        assert_eq!(spec.grace, Some(Duration::from_secs(50)));
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-11-01T00:00:00Z" } });
        let SecretCluster(deleted) = SecretCluster::read("ns", "vc-a", &deleted);
        let eligibility = deleted.spec.unwrap().eligibility;
        assert_eq!(eligibility, Eligibility::Remove(DELETED));
    }

    #[test]
    fn kubeconfig_is_under_the_configured_key() {
        let object = json!({ "data": { "config": "aGVsbG8=" } });
        let secret = SecretContent::read("ns", "vc-a", &object);
        let found = secret.kubeconfig("config");
        assert_eq!(found.cluster, "ns/vc-a");
        assert_eq!(found.text.unwrap().expose_secret(), b"hello");
        let missing = secret.kubeconfig("value").text.unwrap_err();
        assert_eq!(missing, "it has no key `value`");
        assert!(!format!("{secret:?}").contains("aGVsbG8"));
    }
}
