//! Gardener's Cluster resource.

use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::FieldPath;
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use super::eligibility::eligibility;
use super::shoot;
use crate::source::{ClusterObject, ClusterSpec};

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
            name: name.to_owned(),
            spec: shoot.map(|shoot| ClusterSpec {
                eligibility: eligibility(&shoot),
                grace: shoot.node_monitor_grace,
                pools: shoot.pools,
            }),
        })
    }
}
