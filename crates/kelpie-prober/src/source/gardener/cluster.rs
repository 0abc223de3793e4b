//! Gardener's Cluster resource.

use kelpie_kube::events::ObjectRef;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::FieldPath;
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use super::eligibility::eligibility;
use super::shoot;
use crate::source::{ClusterIdentity, ClusterLabels, ClusterObject, ClusterSpec};

/// A Cluster: the Shoot is embedded in it, and its name is also the name of its control namespace.
#[derive(Clone, Debug)]
pub(super) struct Cluster(pub(super) ClusterObject);

impl WatchedResource for Cluster {
    const KIND: ObjectKind = ObjectKind::new(
        "extensions.gardener.cloud",
        "v1alpha1",
        "Cluster",
        "clusters",
    );
    const FIELDS: &'static [FieldPath] = shoot::FIELDS;
    /// A Cluster embeds the Shoot, the Seed and the `CloudProfile`: some 100 KB.
    const PAGE: u32 = 50;

    fn read(_namespace: &str, name: &str, object: &Value) -> Self {
        let shoot = shoot::read(&object["spec"]["shoot"]);
        Self(ClusterObject {
            identity: identity(name),
            spec: shoot.map(|shoot| ClusterSpec {
                eligibility: eligibility(&shoot),
                grace: shoot.node_monitor_grace,
                pools: shoot.pools,
            }),
            labels: ClusterLabels::read(object),
        })
    }
}

fn identity(name: &str) -> ClusterIdentity {
    ClusterIdentity {
        id: name.into(),
        namespace: name.into(),
        object: ObjectRef {
            api_version: "extensions.gardener.cloud/v1alpha1".to_owned(),
            kind: "Cluster".to_owned(),
            name: name.to_owned(),
            ..ObjectRef::default()
        },
    }
}
