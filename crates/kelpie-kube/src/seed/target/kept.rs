//! What is used of a target's object and of its scale.

use kelpie_core::fence::{
    IGNORE_ANNOTATION, MARKER_ANNOTATION, Present, REPLICAS_ANNOTATION, Version,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer};
use serde_json::Value;

use crate::seed::sieve::Keep;

/// What is kept of an object or its scale.
#[derive(Debug)]
pub(super) struct Kept(Value);

const KEEP: Keep = Keep::Fields(&[
    (
        "metadata",
        Keep::Fields(&[
            ("namespace", Keep::All),
            ("uid", Keep::All),
            ("resourceVersion", Keep::All),
            (
                "annotations",
                Keep::Fields(&[
                    (REPLICAS_ANNOTATION, Keep::All),
                    (MARKER_ANNOTATION, Keep::All),
                    (IGNORE_ANNOTATION, Keep::All),
                ]),
            ),
        ]),
    ),
    ("spec", Keep::Fields(&[("replicas", Keep::All)])),
    (
        "status",
        Keep::Fields(&[("replicas", Keep::All), ("readyReplicas", Keep::All)]),
    ),
]);

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KEEP.deserialize(deserializer).map(Self)
    }
}

/// One page of a list of objects.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    metadata: PageMeta,
    pub(super) items: Vec<Kept>,
}

#[derive(Debug, Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    rest: String,
}

impl Page {
    /// What to ask for the next page with, if there is one.
    pub(super) fn rest(&self) -> Option<&str> {
        Some(self.metadata.rest.as_str()).filter(|rest| !rest.is_empty())
    }
}

impl Kept {
    pub(super) fn namespace(&self) -> &str {
        self.0["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    pub(super) fn version(&self) -> Version {
        let version = self.0["metadata"]["resourceVersion"].as_str();
        Version::new(version.unwrap_or_default())
    }

    pub(super) fn count(&self, pointer: &str) -> Option<u32> {
        u32::try_from(self.0.pointer(pointer)?.as_u64()?).ok()
    }

    pub(super) fn ready(&self) -> Option<u32> {
        self.count("/status/readyReplicas")
    }

    /// Of an object whose counts stand where those of a Deployment do.
    pub(super) fn plainly_present(&self) -> Present {
        let (replicas, ready) = (self.count("/spec/replicas"), self.ready());
        // The API server fills in 1 where the owner said nothing.
        self.present(replicas.unwrap_or(1), ready.unwrap_or(0))
    }

    pub(super) fn present(&self, replicas: u32, ready: u32) -> Present {
        let metadata = &self.0["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        Present {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            ..Present::new(replicas, ready, self.version(), annotation)
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::fence::Recorded;

    use super::*;

    fn kept(text: &str) -> Kept {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn counts_version_and_our_annotations_are_kept() {
        let object = kept(
            r#"{"metadata": {"resourceVersion": "7", "uid": "u", "managedFields": [{"manager": "m"}],
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
            (Some(2), Some(1))
        );
        let present = object.present(2, 1);
        assert_eq!(present.version, Version::new("7"));
        assert_eq!(present.recorded, Recorded::Count(3));
        assert!(present.marked && present.ignored);
        assert_eq!(&*present.uid, "u");
    }

    #[test]
    fn counts_that_are_none_are_absent() {
        for replicas in ["null", "-1", "1.5", r#""2""#, "4294967296", "{}"] {
            let object = kept(&format!(r#"{{"spec": {{"replicas": {replicas}}}}}"#));
            assert_eq!(object.count("/spec/replicas"), None, "{replicas}");
        }
        assert_eq!(kept("[]").version(), Version::new(""));
    }
}
