//! The labels of the object that stands for a cluster.

use std::collections::BTreeMap;

use kelpie_core::prober::shard::Revision;
use kelpie_kube::projection::FieldPath;
use serde_json::Value;

/// The field of the labels, for watches.
pub(super) const LABELS: FieldPath = &["metadata", "labels"];

/// The labels of an object, and the version that has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLabels {
    /// The labels. One whose value is no string is left out.
    pub labels: BTreeMap<String, String>,
    /// The version of the object.
    pub revision: Revision,
}

impl ClusterLabels {
    /// Reads the metadata of an object.
    pub(super) fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        Self {
            labels: labels.filter_map(text).collect(),
            revision: Revision::parse(version),
        }
    }
}
