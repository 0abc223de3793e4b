//! Kinds that definitions make.

use std::time::Duration;

use anyhow::Result;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use crate::conformance::Stage;

const PATIENCE: Duration = Duration::from_secs(30);

/// Defines widgets in a group of this behaviour's own, and waits until they are served. Gives the path
/// of those in the namespace.
async fn define(stage: &Stage) -> Result<String> {
    let api = &stage.admin;
    let group = format!("{}.example.com", stage.namespace);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.post(definitions, &definition).await?.ok()?;
    let path = stage.at(&format!("{group}/v1alpha1"), "widgets");
    let resources = format!("/apis/{group}/v1alpha1");
    poll::until("the definition to be served", PATIENCE, async || {
        let objects = api.get(&path).await?.status;
        let discovery = api.get(&resources).await?.status;
        Ok((objects == 200 && discovery == 200).then_some(()))
    })
    .await?;
    Ok(path)
}

fn widget(size: u32) -> Value {
    json!({ "metadata": { "name": "w" }, "spec": { "size": size }, "status": { "size": 9 } })
}

/// With kind and version, which custom objects cannot be without.
fn typed(stage: &Stage, mut object: Value) -> Value {
    object["apiVersion"] = format!("{}.example.com/v1alpha1", stage.namespace).into();
    object["kind"] = "Widget".into();
    object
}

pub(super) async fn a_definition_is_served_and_its_objects_are_kept(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, define(&stage).await?);
    let made = api.post(&path, &typed(&stage, widget(2))).await?;
    let list = api.get(&path).await?;
    let one = format!("{path}/w");
    let merged = api.merge(&one, &json!({ "spec": { "size": 3 } })).await?;
    let strategic = "application/strategic-merge-patch+json";
    let refused = api
        .patch(&one, strategic, &json!({ "spec": { "size": 4 } }))
        .await?;
    let blind = api.put(&one, &typed(&stage, widget(5))).await?;
    let deleted = api.delete(&one, &Value::Null).await?;
    let group = format!("/apis/{}.example.com/v1alpha1", stage.namespace);
    let mut resources = api.get(&group).await?.ok()?["resources"].clone();
    for resource in resources.as_array_mut().into_iter().flatten() {
        resource["storageVersionHash"] = Value::Null;
        if let Some(verbs) = resource["verbs"].as_array_mut() {
            verbs.sort_by_key(Value::to_string);
        }
    }
    if let Some(resources) = resources.as_array_mut() {
        resources.sort_by_key(|resource| resource["name"].to_string());
    }
    Ok(json!([
        made.shown(),
        list.shown(),
        merged.shown(),
        refused.status,
        blind.shown(),
        deleted.shown(),
        resources,
    ]))
}

pub(super) async fn custom_objects_are_scaled_where_the_definition_says(
    stage: Stage,
) -> Result<Value> {
    let (api, path) = (&stage.admin, define(&stage).await?);
    let made = api.post(&path, &typed(&stage, widget(2))).await?.ok()?;
    let one = format!("{path}/w");
    let status = json!({ "status": { "size": 1, "selector": "app=w" } });
    api.merge(&format!("{one}/status"), &status).await?.ok()?;
    let scale = format!("{one}/scale");
    let mut seen = vec![api.get(&scale).await?.shown()];
    for size in [0, 4] {
        let patch = json!({ "spec": { "replicas": size } });
        seen.push(api.merge(&scale, &patch).await?.shown());
    }
    let late = json!({
        "metadata": { "resourceVersion": made["metadata"]["resourceVersion"] },
        "spec": { "replicas": 7 },
    });
    seen.push(api.merge(&scale, &late).await?.shown());
    seen.push(api.get(&one).await?.shown());
    Ok(json!(seen))
}

pub(super) async fn custom_status_is_apart(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, define(&stage).await?);
    api.post(&path, &typed(&stage, widget(2))).await?.ok()?;
    let one = format!("{path}/w");
    let both = json!({ "spec": { "size": 7 }, "status": { "size": 7 } });
    let status = api.merge(&format!("{one}/status"), &both).await?;
    let main = api.merge(&one, &json!({ "status": { "size": 8 } })).await?;
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let labelled = api.merge(&one, &labelled).await?;
    Ok(json!([status.shown(), main.shown(), labelled.shown()]))
}

pub(super) async fn a_watch_from_before_the_history_is_told_so(stage: Stage) -> Result<Value> {
    let path = define(&stage).await?;
    let events = stage
        .admin
        .watch(&format!("{path}?watch=1&resourceVersion=1"), 1)
        .await?;
    assert_eq!(events[0]["object"]["code"], 410);
    Ok(json!(events))
}
