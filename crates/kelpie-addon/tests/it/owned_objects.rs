//! Deleting an addon removes the objects that were created for it, and no others.

use kelpie_sim::resource::{CONFIG_MAPS, DEPLOYMENTS, SERVICES};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

use crate::fixture::*;

fn object_names(spoke: &ApiServer) -> Vec<Value> {
    let objects = [SERVICES, DEPLOYMENTS].map(|resource| spoke.list(&resource));
    let objects = objects.into_iter().flatten();
    objects
        .map(|object| object["metadata"]["name"].clone())
        .collect()
}

/// Creates objects that resemble those of the addon: the same app label, a similar name, another
/// owner.
fn create_foreign_objects(spoke: &ApiServer) -> Vec<Value> {
    let labels = json!({ "app.kubernetes.io/name": PLATFORM_COLLECTOR });
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner = spoke.create(&CONFIG_MAPS, owner);
    let owners = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    for metadata in [
        json!({ "name": "of-the-same-app", "labels": labels }),
        json!({ "name": format!("{PLATFORM_COLLECTOR}-too") }),
        json!({ "name": "owned-by-another", "ownerReferences": owners }),
    ] {
        spoke.create(&SERVICES, json!({ "metadata": metadata }));
    }
    object_names(spoke)
}

async fn until_deployed(spoke: &ApiServer) -> Value {
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    spoke.until_reason(UWL_STATUS, "UpdateSuccessful").await;
    spoke.until_deployment(UWL_COLLECTOR, |_| true).await;
    spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await
}

/// Waits until only these objects are left, and for longer than a reconcile. A reconcile that was
/// running when the addon was deleted may create one more object, which the next one removes.
async fn until_only(spoke: &ApiServer, kept: &[Value]) {
    let is_clean = || (object_names(spoke) == kept).then_some(());
    until("the deletion of all other objects", is_clean).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(object_names(spoke), kept);
}

#[tokio::test(start_paused = true)]
async fn operator_cleans_up_without_garbage_collector() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.create_uwl_prometheus();
    let kept = create_foreign_objects(&spoke);
    assert_eq!(kept.len(), 3);
    let first = start_operator(&spoke, RESYNC);
    let old = until_deployed(&spoke).await;
    spoke.delete(&ADDONS, NAME);
    until_only(&spoke, &kept).await;
    // Another addon of the same name ignores reports of the old pod.
    spoke.create_addon(&json!({}));
    until_deployed(&spoke).await;
    assert_refused(&spoke.report_from_pod(PLATFORM, SUCCESS, &old).await);
    // Deleted while no operator was running.
    first.stop().await;
    spoke.delete(&ADDONS, NAME);
    let _second = start_operator(&spoke, RESYNC);
    until_only(&spoke, &kept).await;
}
