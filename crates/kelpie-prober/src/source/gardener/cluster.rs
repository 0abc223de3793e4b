//! Gardener's Cluster resource.

use kelpie_kube::projection::FieldMask;
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use super::eligibility::eligibility;
use super::shoot;
use crate::source::{ClusterObject, ClusterSpec};

/// A Cluster: the Shoot is embedded in it, and its name is also the name of its control namespace.
#[derive(Clone, Debug)]
pub(super) struct Cluster(pub(super) ClusterObject);

impl WatchedResource for Cluster {
    const GROUP: &'static str = "extensions.gardener.cloud";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
    const FIELDS: FieldMask = FieldMask::Fields(&[
        (
            "metadata",
            FieldMask::Fields(&[
                ("name", FieldMask::All),
                ("resourceVersion", FieldMask::All),
            ]),
        ),
        ("spec", FieldMask::Fields(&[("shoot", shoot::FIELDS)])),
    ]);
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
