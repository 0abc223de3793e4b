//! Reads whose "not found" has consequences.

use std::collections::BTreeSet;

use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectPath};
use parking_lot::Mutex;
use serde_json::Value;

/// Reads objects. One counts as missing only if a second read does not find it either: a single
/// 404 may come from a proxy, or from an API server that has just started. An object that was
/// missing before needs no second read.
pub(crate) struct ConfirmedReader {
    objects: ObjectClient,
    /// The objects that the last read did not find, as displayed.
    missing: Mutex<BTreeSet<String>>,
}

impl ConfirmedReader {
    pub(crate) fn new(objects: ObjectClient) -> Self {
        let missing = Mutex::default();
        Self { objects, missing }
    }

    pub(crate) async fn read(&self, path: &ObjectPath<'_>) -> Result<Option<Value>, ObjectError> {
        let name = path.to_string();
        let mut found = self.objects.get(path).await?;
        if found.is_none() && !self.missing.lock().contains(&name) {
            found = self.objects.get(path).await?;
        }
        let mut missing = self.missing.lock();
        if found.is_some() {
            missing.remove(&name);
        } else {
            missing.insert(name);
        }
        Ok(found)
    }

    /// Forgets an object, so that its absence has to be confirmed again.
    pub(crate) fn forget(&self, path: &ObjectPath<'_>) {
        self.missing.lock().remove(&path.to_string());
    }
}
