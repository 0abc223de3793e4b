//! The `ObservabilityAddon` of a cluster.

use kelpie_core::addon::Status;
use kelpie_kube::objects::{Kind, Place};
use serde_json::Value;

use crate::spec::Spec;

/// The kind.
pub const ADDON: Kind = Kind::new(
    "observability.open-cluster-management.io",
    "v1beta1",
    "ObservabilityAddon",
    "observabilityaddons",
);

/// Which addon is meant: on the spoke in the addon's namespace, on the hub in the cluster's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddonRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name, the same on both sides.
    pub name: String,
}

impl AddonRef {
    pub(crate) fn place(&self) -> Place<'_> {
        ADDON.named(&self.namespace, &self.name)
    }
}

/// An addon as it was read.
#[derive(Clone, Debug)]
pub struct Addon {
    /// Tells it from an older one of the same name.
    pub uid: String,
    /// Somebody has deleted it; it is there until its finalizers are gone.
    pub is_going: bool,
    /// What is wanted.
    pub spec: Spec,
    /// What its writers say.
    pub status: Status,
    object: Value,
}

impl Addon {
    /// Whatever the object looks like: what cannot be read is as good as absent.
    pub(crate) fn read(object: Value) -> Self {
        let metadata = &object["metadata"];
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            is_going: metadata["deletionTimestamp"].is_string(),
            spec: part(&object["spec"]),
            status: part(&object["status"]),
            object,
        }
    }

    /// The object with another status, to be put in its place. What the status has beside what we
    /// know is kept.
    pub(crate) fn with_status(&self, status: &Status) -> Value {
        let mut object = self.object.clone();
        let written = serde_json::to_value(status).unwrap_or_default();
        if !object["status"].is_object() {
            object["status"] = Value::Object(serde_json::Map::default());
        }
        object["status"]["conditions"] = written["conditions"].clone();
        match written.get("rollouts") {
            Some(rollouts) => object["status"]["rollouts"] = rollouts.clone(),
            None => {
                if let Some(status) = object["status"].as_object_mut() {
                    status.remove("rollouts");
                }
            }
        }
        object
    }

    pub(crate) fn object(&self) -> &Value {
        &self.object
    }
}

fn part<T: Default + for<'de> serde::Deserialize<'de>>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_an_object_looks_like_it_is_read() {
        for object in [
            json!(null),
            json!({ "spec": 7, "status": [] }),
            json!({ "metadata": { "uid": 7 }, "spec": { "interval": "x" } }),
        ] {
            let addon = Addon::read(object);
            assert_eq!(addon.spec, Spec::default());
            assert_eq!(addon.status, Status::default());
        }
    }

    #[test]
    fn a_new_status_keeps_what_is_not_known_here() {
        let object =
            json!({ "metadata": { "uid": "u" }, "status": { "other": 1, "rollouts": {} } });
        let written = Addon::read(object).with_status(&Status::default());
        assert_eq!(written["status"], json!({ "other": 1, "conditions": [] }));
        let bare = Addon::read(json!({})).with_status(&Status::default());
        assert_eq!(bare["status"], json!({ "conditions": [] }));
    }
}
