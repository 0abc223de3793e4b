//! Patches.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) async fn merge_patches(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let map = json!({
        "metadata": { "name": "a", "annotations": { "x": "1", "y": "2" } },
        "data": { "k": "v" },
    });
    api.post(&path, &map).await?.ok()?;
    let mut seen = Vec::new();
    for patch in [
        json!({ "metadata": { "annotations": { "x": null, "z": "3" } } }),
        json!({ "data": { "l": "w" } }),
        json!({ "metadata": { "annotations": null }, "data": null }),
        json!({ "metadata": { "annotations": { "only": "" } } }),
        json!({ "metadata": { "annotations": { "only": null } } }),
    ] {
        seen.push(api.merge(&format!("{path}/a"), &patch).await?.shown());
    }
    Ok(json!(seen))
}

pub(super) async fn merge_patches_rest_on_versions(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let made = api.post(&path, &named("a")).await?.ok()?;
    let patch = |value: &str| {
        json!({
            "metadata": { "resourceVersion": made["metadata"]["resourceVersion"] },
            "data": { "k": value },
        })
    };
    let good = api.merge(&format!("{path}/a"), &patch("v")).await?;
    let late = api.merge(&format!("{path}/a"), &patch("w")).await?;
    assert_eq!((good.status, late.status), (200, 409));
    Ok(json!([good.shown(), late.shown()]))
}

pub(super) async fn json_patches(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let mut map = named("a");
    map["data"] = json!({ "k": "v" });
    api.post(&path, &map).await?.ok()?;
    let path = format!("{path}/a");
    let good = json!([
        { "op": "test", "path": "/data/k", "value": "v" },
        { "op": "replace", "path": "/data/k", "value": "w" },
        { "op": "add", "path": "/metadata/annotations", "value": { "a~b/c": "d" } },
        { "op": "copy", "from": "/data/k", "path": "/data/l" },
        { "op": "remove", "path": "/metadata/annotations/a~0b~1c" },
    ]);
    let good = api.patch(&path, JSON_PATCH, &good).await?;
    let failing = json!([{ "op": "test", "path": "/data/k", "value": "other" }]);
    let failing = api.patch(&path, JSON_PATCH, &failing).await?;
    let missing = json!([{ "op": "remove", "path": "/data/none" }]);
    let missing = api.patch(&path, JSON_PATCH, &missing).await?;
    Ok(json!([good.shown(), failing.status, missing.status]))
}

pub(super) async fn strategic_patches_know_conditions(stage: Stage) -> Result<Value> {
    let (api, name) = (&stage.admin, &stage.namespace);
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": "Test",
            "message": "a test",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut node = named(name);
    let conditions = [
        condition("Ready", "True"),
        condition("DiskPressure", "False"),
    ];
    node["status"] = json!({ "conditions": conditions });
    api.post("/api/v1/nodes", &node).await?.ok()?;
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    let path = format!("/api/v1/nodes/{name}/status");
    let patched = api.patch(&path, STRATEGIC, &patch).await?.ok()?;
    assert_eq!(patched["status"]["conditions"][0]["status"], "Unknown");
    Ok(patched["status"]["conditions"].clone())
}

pub(super) async fn strategic_patches_know_containers(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at("apps/v1", "deployments"));
    let container = |name: &str| json!({ "name": name, "image": "none" });
    let deployment = json!({
        "metadata": { "name": "a" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [container("one"), container("two")] },
            },
        },
    });
    api.post(&path, &deployment).await?.ok()?;
    let of = |containers: Value| json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    let mut seen = Vec::new();
    for patch in [
        of(json!([{ "name": "two", "image": "other" }])),
        of(json!([{ "name": "one", "env": [{ "name": "A", "value": "1" }] }])),
        of(json!([{ "name": "one", "env": [{ "name": "B", "value": "2" }] }])),
        of(json!([{ "$patch": "delete", "name": "one" }])),
    ] {
        let patched = api
            .patch(&format!("{path}/a"), STRATEGIC, &patch)
            .await?
            .ok()?;
        let containers = &patched["spec"]["template"]["spec"]["containers"];
        let containers = containers.as_array().into_iter().flatten();
        let short = containers.map(|c| json!([c["name"], c["image"], c["env"]]));
        seen.push(json!([
            short.collect::<Vec<_>>(),
            patched["metadata"]["generation"]
        ]));
    }
    Ok(json!(seen))
}

pub(super) async fn apply_creates_and_changes(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let map = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data,
        })
    };
    let nobody = api
        .patch(&format!("{path}/a"), APPLY, &map(json!({})))
        .await?;
    let path = format!("{path}/a?fieldManager=me&force=true");
    let made = api.patch(&path, APPLY, &map(json!({ "k": "v" }))).await?;
    let changed = api
        .patch(&path, APPLY, &map(json!({ "k": "w", "l": "x" })))
        .await?;
    let same = api
        .patch(&path, APPLY, &map(json!({ "k": "w", "l": "x" })))
        .await?;
    let less = api.patch(&path, APPLY, &map(json!({ "k": "w" }))).await?;
    assert_eq!((made.status, changed.status), (201, 200));
    Ok(json!([
        made.shown(),
        changed.shown(),
        same.shown(),
        less.shown(),
        nobody.shown(),
    ]))
}

pub(super) async fn wrong_patches(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let mut statuses = Vec::new();
    for (kind, patch) in [
        ("application/merge-patch+json", json!([1])),
        (JSON_PATCH, json!({})),
        (
            "application/merge-patch+json",
            json!({ "metadata": { "name": "b" } }),
        ),
        ("application/whatever", json!({})),
    ] {
        statuses.push(api.patch(&path, kind, &patch).await?.status);
    }
    Ok(json!(statuses))
}
