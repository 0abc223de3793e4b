//! Custom resources.

use std::time::Duration;

use anyhow::Result;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use crate::conformance::Fixture;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Defines widgets in a group for this behaviour alone, and waits until they are served. Returns
/// their path in the namespace.
async fn define_widgets(fixture: &Fixture) -> Result<String> {
    let api = &fixture.admin;
    let group = format!("{}.example.com", fixture.namespace);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": "Widget",
                "listKind": "WidgetList",
                "plural": "widgets",
                "singular": "widget",
                "shortNames": ["wd"],
            },
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
    let path = fixture.group_path(&format!("{group}/v1alpha1"), "widgets");
    let resources = format!("/apis/{group}/v1alpha1");
    poll::until("the definition to be served", TIMEOUT, async || {
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

/// Adds kind and version, which are mandatory for custom objects.
fn typed(fixture: &Fixture, mut object: Value) -> Value {
    object["apiVersion"] = format!("{}.example.com/v1alpha1", fixture.namespace).into();
    object["kind"] = "Widget".into();
    object
}

pub(super) async fn objects_are_served(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, define_widgets(&fixture).await?);
    let created = api.post(&path, &typed(&fixture, widget(2))).await?;
    let list = api.get(&path).await?;
    let one = format!("{path}/w");
    let merged = api.merge(&one, &json!({ "spec": { "size": 3 } })).await?;
    let strategic = "application/strategic-merge-patch+json";
    let refused = api
        .patch(&one, strategic, &json!({ "spec": { "size": 4 } }))
        .await?;
    let blind = api.put(&one, &typed(&fixture, widget(5))).await?;
    let deleted = api.delete(&one, &Value::Null).await?;
    let group = format!("/apis/{}.example.com/v1alpha1", fixture.namespace);
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
        created.record(),
        list.record(),
        merged.record(),
        refused.status,
        blind.record(),
        deleted.record(),
        resources,
    ]))
}

pub(super) async fn scale_uses_replicas_path(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, define_widgets(&fixture).await?);
    let created = api.post(&path, &typed(&fixture, widget(2))).await?.ok()?;
    let one = format!("{path}/w");
    let status = json!({ "status": { "size": 1, "selector": "app=w" } });
    api.merge(&format!("{one}/status"), &status).await?.ok()?;
    let scale = format!("{one}/scale");
    let mut records = vec![api.get(&scale).await?.record()];
    for size in [0, 4] {
        let patch = json!({ "spec": { "replicas": size } });
        records.push(api.merge(&scale, &patch).await?.record());
    }
    let stale = json!({
        "metadata": { "resourceVersion": created["metadata"]["resourceVersion"] },
        "spec": { "replicas": 7 },
    });
    records.push(api.merge(&scale, &stale).await?.record());
    records.push(api.get(&one).await?.record());
    Ok(json!(records))
}

pub(super) async fn status_subresource(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, define_widgets(&fixture).await?);
    api.post(&path, &typed(&fixture, widget(2))).await?.ok()?;
    let one = format!("{path}/w");
    let both = json!({ "spec": { "size": 7 }, "status": { "size": 7 } });
    let status = api.merge(&format!("{one}/status"), &both).await?;
    let main = api.merge(&one, &json!({ "status": { "size": 8 } })).await?;
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let labelled = api.merge(&one, &labelled).await?;
    Ok(json!([status.record(), main.record(), labelled.record()]))
}

pub(super) async fn compacted_version_expires(fixture: Fixture) -> Result<Value> {
    let path = define_widgets(&fixture).await?;
    let events = fixture
        .admin
        .watch(&format!("{path}?watch=1&resourceVersion=1"), 1)
        .await?;
    assert_eq!(events[0]["object"]["code"], 410);
    Ok(json!(events))
}
