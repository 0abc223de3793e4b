//! A target's object or its scale, reduced to the fields that are used.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kelpie_core::prober::Setting;
use kelpie_core::prober::fence::{ResourceVersion, TargetObject};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer};
use serde_json::Value;

use crate::actuator::annotations::{
    IGNORE_ANNOTATION, MARKER_ANNOTATION, REPLICAS_ANNOTATION, target_object,
};
use crate::projection::{FieldMask, FieldPath};

#[derive(Debug, Clone)]
pub(super) struct ScaleObject(Value);

const FIELDS: &[FieldPath] = &[
    &["metadata", "uid"],
    &["metadata", "annotations", REPLICAS_ANNOTATION],
    &["metadata", "annotations", MARKER_ANNOTATION],
    &["metadata", "annotations", IGNORE_ANNOTATION],
    &["spec", "replicas"],
    &["status", "replicas"],
    &["status", "readyReplicas"],
];

impl<'de> Deserialize<'de> for ScaleObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FieldMask::new(FIELDS).deserialize(deserializer).map(Self)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ScalePage {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    pub(super) items: Vec<ScaleObject>,
}

impl ScaleObject {
    pub(super) fn namespace(&self) -> &str {
        self.0["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn version(&self) -> ResourceVersion {
        let version = self.0["metadata"]["resourceVersion"].as_str();
        ResourceVersion::new(version.unwrap_or_default())
    }

    pub(super) fn count(&self, pointer: &str) -> Option<Setting> {
        let count = self.0.pointer(pointer)?.as_u64()?;
        u32::try_from(count).ok().map(Setting)
    }

    pub(super) fn ready(&self) -> Option<Setting> {
        self.count("/status/readyReplicas")
    }

    /// Converts an object that has its replicas where a Deployment does.
    pub(super) fn to_target(&self) -> TargetObject {
        let (replicas, ready) = (self.count("/spec/replicas"), self.ready());
        // The API server defaults to 1.
        self.to_target_with(replicas.unwrap_or(Setting(1)), ready.unwrap_or(Setting(0)))
    }

    pub(super) fn to_target_with(&self, replicas: Setting, ready: Setting) -> TargetObject {
        let metadata = &self.0["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        TargetObject {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            ..target_object(replicas, ready, self.version(), annotation)
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::prober::fence::RecordedSetting;

    use super::*;

    fn kept(text: &str) -> ScaleObject {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn used_fields_are_kept() {
        let object = kept(
            r#"{"metadata": {"resourceVersion": "7", "uid": "u",
                "managedFields": [{"manager": "m"}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "large",
                    "dependency-watchdog.gardener.cloud/replicas": "3",
                    "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
                    "dependency-watchdog.gardener.cloud/ignore-scaling": "true"}},
                "spec": {"replicas": 2, "template": {}}, "status": {"readyReplicas": 1}}"#,
        );
        assert!(!format!("{object:?}").contains("large"));
        assert!(!format!("{object:?}").contains("managedFields"));
        assert_eq!(
            (object.count("/spec/replicas"), object.ready()),
            (Some(Setting(2)), Some(Setting(1)))
        );
        let present = object.to_target_with(Setting(2), Setting(1));
        assert_eq!(present.version, ResourceVersion::new("7"));
        assert_eq!(present.recorded, RecordedSetting::Value(Setting(3)));
        assert!(present.marked && present.ignored);
        assert_eq!(&*present.uid, "u");
    }

    #[test]
    fn invalid_counts_are_absent() {
        for replicas in ["null", "-1", "1.5", r#""2""#, "4294967296", "{}"] {
            let object = kept(&format!(r#"{{"spec": {{"replicas": {replicas}}}}}"#));
            assert_eq!(object.count("/spec/replicas"), None, "{replicas}");
        }
        assert_eq!(kept("[]").version(), ResourceVersion::new(""));
    }
}
