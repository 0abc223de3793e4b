//! Gardener's Clusters.

use kelpie_core::ShootFacts;
use serde_json::Value;

use super::shoot;
use super::sieve::Keep;
use super::watch::Watched;

/// What is used of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Its name, which is also its control namespace's.
    pub name: String,
    /// Its Shoot, or what is wrong with it.
    pub shoot: Result<ShootFacts, String>,
}

/// A Cluster has the whole Shoot, seed and cloud profile inside: some 100 KB each.
pub(super) const PAGE: u32 = 50;

impl Watched for ClusterFacts {
    const GROUP: &'static str = "extensions.gardener.cloud";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[("name", Keep::All), ("resourceVersion", Keep::All)]),
        ),
        ("spec", Keep::Fields(&[("shoot", shoot::KEEP)])),
    ]);

    fn read(_namespace: &str, name: &str, object: &Value) -> Self {
        Self {
            name: name.to_owned(),
            shoot: shoot::read(&object["spec"]["shoot"]),
        }
    }
}
