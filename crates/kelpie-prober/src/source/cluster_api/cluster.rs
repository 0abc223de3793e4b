//! The Cluster resource of Cluster API, in both of its shapes.

use kelpie_core::prober::PoolConditions;
use kelpie_kube::events::ObjectRef;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::{Field, FieldPath};
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use crate::source::grace_period::{self, GRACE_ANNOTATION};
use crate::source::labels::LABELS;
use crate::source::{
    ClusterIdentity, ClusterLabels, ClusterObject, ClusterSpec, Eligibility, namespaced_id,
};

const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

const DELETED: &str = "it is being deleted";
const PAUSED: &str = "it is paused";
const NOT_INITIALIZED: &str = "its control plane is not initialized";

/// A Cluster. The grace period of its version is kept apart: the configuration may set another.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) object: ClusterObject,
    /// The version of Kubernetes, of a Cluster with a topology.
    pub(super) version: Option<String>,
}

const fn version(version: &'static str) -> ObjectKind {
    ObjectKind::new("cluster.x-k8s.io", version, "Cluster", "clusters")
}

impl WatchedResource for Cluster {
    const KIND: ObjectKind = version("v1beta2");
    const OLDER: &'static [ObjectKind] = &[version("v1beta1")];
    const FIELDS: &'static [FieldPath] = &[
        &["apiVersion"],
        &["metadata", "uid"],
        LABELS,
        &["metadata", "deletionTimestamp"],
        &["metadata", "annotations", PAUSED_ANNOTATION],
        &["metadata", "annotations", GRACE_ANNOTATION],
        &["spec", "paused"],
        &["spec", "topology", "version"],
        &["status", "initialization", "controlPlaneInitialized"],
        &["status", "conditions", "type"],
        &["status", "conditions", "status"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let (uid, api_version) = (&object["metadata"]["uid"], &object["apiVersion"]);
        let api_version = api_version.as_str().map(str::to_owned);
        let version = object["spec"]["topology"]["version"].as_str();
        Self {
            object: ClusterObject {
                identity: ClusterIdentity {
                    id: namespaced_id::id(namespace, name).into(),
                    namespace: namespace.into(),
                    object: ObjectRef {
                        api_version: api_version.unwrap_or_else(|| Self::KIND.api_version()),
                        kind: Self::KIND.kind.to_owned(),
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        uid: uid.as_str().map(str::to_owned),
                    },
                },
                spec: read_spec(&Field::new("", object)),
                labels: ClusterLabels::read(object),
            },
            version: version.map(str::to_owned),
        }
    }
}

fn read_spec(cluster: &Field<'_>) -> Result<ClusterSpec, String> {
    Ok(ClusterSpec {
        eligibility: eligibility(cluster)?,
        grace: grace_period::read_annotation(cluster)?,
        pools: PoolConditions::new(),
    })
}

fn eligibility(cluster: &Field<'_>) -> Result<Eligibility, String> {
    let metadata = cluster.of("metadata")?;
    // The value of the annotation does not matter to Cluster API.
    let is_annotated = metadata.of("annotations")?.of(PAUSED_ANNOTATION)?;
    Ok(if metadata.of("deletionTimestamp")?.is_present() {
        Eligibility::Remove(DELETED)
    } else if is_annotated.is_present() || cluster.of("spec")?.of("paused")?.flag()? {
        Eligibility::Remove(PAUSED)
    } else if is_initialized(&cluster.of("status")?)? {
        Eligibility::Run
    } else {
        Eligibility::NotYet(NOT_INITIALIZED)
    })
}

/// Returns whether the control plane has ever served requests. v1beta2 has a field for this, and
/// both versions have a condition.
fn is_initialized(status: &Field<'_>) -> Result<bool, String> {
    let initialization = status.of("initialization")?;
    if initialization.of("controlPlaneInitialized")?.flag()? {
        return Ok(true);
    }
    for condition in status.of("conditions")?.list()? {
        let is_it = condition.of("type")?.text()? == "ControlPlaneInitialized";
        if is_it && condition.of("status")?.text()? == "True" {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn spec(cluster: &Value) -> Result<ClusterSpec, String> {
        Cluster::read("ns", "a", cluster).object.spec
    }

    fn initialized_v1beta1() -> Value {
        json!({ "conditions": [
            { "type": "Ready", "status": "False" },
            { "type": "ControlPlaneInitialized", "status": "True" },
        ] })
    }

    fn initialized_v1beta2() -> Value {
        json!({ "initialization": { "controlPlaneInitialized": true } })
    }

    #[test]
    fn both_versions_are_read() {
        let not_yet = Eligibility::NotYet(NOT_INITIALIZED);
        let unknown = json!({ "conditions": [
            { "type": "ControlPlaneInitialized", "status": "Unknown" },
        ] });
        for (status, expected) in [
            (json!(null), not_yet),
            (json!({ "phase": "Provisioned" }), not_yet),
            (json!({ "initialization": {} }), not_yet),
            (
                json!({ "initialization": { "controlPlaneInitialized": false } }),
                not_yet,
            ),
            (unknown, not_yet),
            (initialized_v1beta1(), Eligibility::Run),
            (initialized_v1beta2(), Eligibility::Run),
        ] {
            let found = spec(&json!({ "status": status })).unwrap();
            assert_eq!(found.eligibility, expected, "{status}");
        }
    }

    #[test]
    fn deleted_and_paused_clusters_are_left_alone() {
        let annotated = json!({ "annotations": { PAUSED_ANNOTATION: "" } });
        let deleted = json!({ "deletionTimestamp": "2026-11-01T00:00:00Z" });
        for (metadata, paused, expected) in [
            (json!({}), json!(true), Eligibility::Remove(PAUSED)),
            (json!({}), json!(false), Eligibility::Run),
            (json!({}), json!(null), Eligibility::Run),
            (annotated, json!(false), Eligibility::Remove(PAUSED)),
            (deleted, json!(true), Eligibility::Remove(DELETED)),
        ] {
            for status in [initialized_v1beta1(), initialized_v1beta2()] {
                let cluster = json!({
                    "metadata": metadata, "spec": { "paused": paused }, "status": status,
                });
                let found = spec(&cluster).unwrap();
                assert_eq!(found.eligibility, expected, "{cluster}");
            }
        }
    }

    #[test]
    fn identity_is_namespace_and_name() {
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "metadata": { "uid": "u" },
            "spec": { "topology": { "version": "v1.33.0" } },
        });
        let cluster = Cluster::read("ns", "a", &cluster);
        let identity = cluster.object.identity;
        assert_eq!((&*identity.id, &*identity.namespace), ("ns/a", "ns"));
        let object = ObjectRef {
            api_version: "cluster.x-k8s.io/v1beta1".into(),
            kind: "Cluster".into(),
            namespace: "ns".into(),
            name: "a".into(),
            uid: Some("u".into()),
        };
        assert_eq!(identity.object, object);
        assert_eq!(cluster.version.as_deref(), Some("v1.33.0"));
    }

    #[test]
    fn annotation_sets_the_grace_period() {
        let annotated = |text| json!({ "metadata": { "annotations": { GRACE_ANNOTATION: text } } });
        let found = spec(&annotated("1m")).unwrap();
        assert_eq!(found.grace, Some(Duration::from_mins(1)));
        assert!(spec(&annotated("soon")).is_err());
    }

    #[test]
    fn malformed_cluster_names_the_field() {
        for (cluster, expected) in [
            (json!({ "spec": { "paused": "yes" } }), "spec.paused"),
            (
                json!({ "status": { "conditions": {} } }),
                "status.conditions",
            ),
        ] {
            let problem = spec(&cluster).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
