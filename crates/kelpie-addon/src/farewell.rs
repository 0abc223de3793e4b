//! The hub deletes the addon: the spoke is cleaned first, then the hub is let go.

use kelpie_kube::objects::{CallError, Cause, Objects};
use serde_json::Value;
use tracing::info;

use crate::addon::{Addon, AddonRef};
use crate::made::{DEPLOYMENT, LABEL};

/// Keeps the hub's addon until the spoke is clean. Whoever made it on the hub has put it there.
pub(crate) const FINALIZER: &str = "observability.open-cluster-management.io/addon-cleanup";

/// Cleans a spoke.
pub(crate) struct Farewell {
    pub(crate) spoke: Objects,
    pub(crate) addon: AddonRef,
}

impl Farewell {
    /// One step further: the spoke's addon is deleted; when it and what was deployed for it are gone
    /// the finalizer goes, once.
    pub(crate) async fn proceed(
        &self,
        hub: &Objects,
        place: &AddonRef,
        theirs: &Addon,
    ) -> Result<(), CallError> {
        let Some(freed) = without_finalizer(theirs.object()) else {
            return Ok(());
        };
        if let Some(object) = self.spoke.get(&self.addon.place()).await? {
            let ours = Addon::read(object);
            if !ours.is_going {
                info!("the hub deletes the addon; the one on the spoke is deleted");
                let deleted = self
                    .spoke
                    .delete(&self.addon.place(), Some(&ours.uid))
                    .await;
                match deleted {
                    Ok(_) => {}
                    // Another one has taken its place: it is seen at the next step.
                    Err(error) if error.cause == Cause::Conflict => {}
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        let namespace = &self.addon.namespace;
        let left = self.spoke.list(DEPLOYMENT, namespace, Some(LABEL)).await?;
        if !left.is_empty() {
            return Ok(());
        }
        info!("the spoke is clean; the hub may delete the addon");
        match hub.replace(&place.place(), &freed).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.cause, Cause::Conflict | Cause::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The object without our finalizer; `None` if it has none.
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
    fn only_our_finalizer_goes() {
        let object = json!({ "metadata": { "finalizers": ["other", FINALIZER] } });
        let freed = without_finalizer(&object).unwrap();
        assert_eq!(freed["metadata"]["finalizers"], json!(["other"]));
        assert_eq!(without_finalizer(&freed), None);
        assert_eq!(without_finalizer(&json!({})), None);
    }
}
