//! The finalizer on the hub's addon: after a deletion on the hub, the spoke is cleaned up before
//! the hub's addon may go.

use kelpie_core::addon::AddonComponent;
use kelpie_kube::client::ApiError;
use kelpie_kube::objects::{ObjectClient, ObjectError};
use serde_json::Value;
use tracing::info;

use crate::addon::{AddonRef, ObservabilityAddon};
use crate::owned::{DEPLOYMENT, read_owned};

/// Keeps the hub's addon until the spoke is clean. It is set by the hub, never by Kelpie.
pub(crate) const FINALIZER: &str = "observability.open-cluster-management.io/addon-cleanup";

/// Cleans up a spoke whose addon was deleted on the hub.
pub(crate) struct SpokeCleanup {
    pub(crate) spoke: ObjectClient,
    pub(crate) addon: AddonRef,
}

impl SpokeCleanup {
    /// Advances the clean-up by one step: deletes the spoke's addon or, once that and its
    /// Deployments are gone, removes the finalizer on the hub. To be called until the hub's addon
    /// has disappeared.
    pub(crate) async fn advance(
        &self,
        hub: &ObjectClient,
        hub_ref: &AddonRef,
        hub_addon: &ObservabilityAddon,
    ) -> Result<(), ObjectError> {
        let Some(released) = without_finalizer(hub_addon.object()) else {
            return Ok(());
        };
        if let Some(object) = self.spoke.get(&self.addon.path()).await? {
            let spoke_addon = ObservabilityAddon::read(object);
            if !spoke_addon.is_terminating {
                info!("the addon was deleted on the hub; deleting it on the spoke");
                let path = self.addon.path();
                let deleted = self.spoke.delete(&path, Some(&spoke_addon.uid)).await;
                // If it was replaced by a new object, the next step handles that.
                return unless_changed(deleted);
            }
            return Ok(());
        }
        let namespace = &self.addon.namespace;
        for component in AddonComponent::ALL {
            let left = read_owned(&self.spoke, DEPLOYMENT, namespace, component);
            if left.await?.is_some() {
                return Ok(());
            }
        }
        info!("the spoke is clean; removing the finalizer on the hub");
        unless_changed(hub.replace(&hub_ref.path(), &released).await)
    }
}

/// Ignores the error that the object was changed or deleted by another client.
fn unless_changed<T>(result: Result<T, ObjectError>) -> Result<(), ObjectError> {
    match result {
        Err(error) if !matches!(error.cause, ApiError::Conflict | ApiError::NotFound) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the object without Kelpie's finalizer, or `None` if it does not have it.
fn without_finalizer(object: &Value) -> Option<Value> {
    let finalizers = object["metadata"]["finalizers"].as_array()?;
    let kept: Vec<Value> = finalizers
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .cloned()
        .collect();
    if kept.len() == finalizers.len() {
        return None;
    }
    let mut object = object.clone();
    object["metadata"]["finalizers"] = kept.into();
    Some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_own_finalizer_is_removed() {
        let object = json!({ "metadata": { "finalizers": ["other", FINALIZER] } });
        let released = without_finalizer(&object).unwrap();
        assert_eq!(released["metadata"]["finalizers"], json!(["other"]));
        assert_eq!(without_finalizer(&released), None);
        assert_eq!(without_finalizer(&json!({})), None);
    }
}
