//! The `ObservabilityAddon` of a cluster.

use kelpie_core::addon::AddonStatus;
use kelpie_kube::objects::{ObjectKind, ObjectPath};
use serde::Deserialize;
use serde_json::Value;

use crate::spec::AddonSpec;

/// The kind `ObservabilityAddon`. [`custom_resource_definition`](crate::custom_resource_definition)
/// defines it.
pub const ADDON: ObjectKind = ObjectKind::new(
    "observability.open-cluster-management.io",
    "v1beta1",
    "ObservabilityAddon",
    "observabilityaddons",
);

/// A reference to an addon. The name is the same on spoke and hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddonRef {
    /// On the spoke the addon's namespace, on the hub the namespace of the cluster.
    pub namespace: String,
    /// The object's name, `observability-addon` by default.
    pub name: String,
}

impl AddonRef {
    pub(crate) fn path(&self) -> ObjectPath<'_> {
        ADDON.named(&self.namespace, &self.name)
    }
}

/// An `ObservabilityAddon` as read from an API server.
#[derive(Clone, Debug)]
pub struct ObservabilityAddon {
    /// Distinguishes it from an earlier object of the same name.
    pub uid: String,
    /// True if a deletion timestamp is set: the object is deleted once its finalizers are gone.
    pub is_terminating: bool,
    /// The desired state, with defaults for fields that are missing or unreadable.
    pub spec: AddonSpec,
    /// A message for each field of the spec that cannot be read.
    pub(crate) spec_problems: Vec<String>,
    /// The observed state, empty if nothing was written yet.
    pub status: AddonStatus,
    object: Value,
}

impl ObservabilityAddon {
    /// Reads an object. Fields that cannot be read get their defaults.
    pub(crate) fn read(object: Value) -> Self {
        let metadata = &object["metadata"];
        let (spec, spec_problems) = AddonSpec::read(&object["spec"]);
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            is_terminating: metadata["deletionTimestamp"].is_string(),
            spec,
            spec_problems,
            status: AddonStatus::deserialize(&object["status"]).unwrap_or_default(),
            object,
        }
    }

    /// Returns the object with another status, for an update. Fields of the status that Kelpie does
    /// not know are kept.
    pub(crate) fn with_status(&self, status: &AddonStatus) -> Value {
        let mut object = self.object.clone();
        let mut fields = object["status"].as_object().cloned().unwrap_or_default();
        // An empty map is not serialized.
        fields.remove("rollouts");
        if let Ok(Value::Object(status)) = serde_json::to_value(status) {
            fields.extend(status);
        }
        object["status"] = fields.into();
        object
    }

    pub(crate) fn object(&self) -> &Value {
        &self.object
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_objects_are_read_with_defaults() {
        for object in [
            json!(null),
            json!({ "spec": 7, "status": [] }),
            json!({ "metadata": { "uid": 7 }, "spec": { "interval": "x" } }),
        ] {
            let addon = ObservabilityAddon::read(object);
            assert_eq!(addon.spec, AddonSpec::default());
            assert_eq!(addon.status, AddonStatus::default());
        }
    }

    #[test]
    fn new_status_keeps_unknown_fields() {
        let object =
            json!({ "metadata": { "uid": "u" }, "status": { "other": 1, "rollouts": {} } });
        let updated = ObservabilityAddon::read(object).with_status(&AddonStatus::default());
        assert_eq!(updated["status"], json!({ "other": 1, "conditions": [] }));
        let bare = ObservabilityAddon::read(json!({})).with_status(&AddonStatus::default());
        assert_eq!(bare["status"], json!({ "conditions": [] }));
    }
}
