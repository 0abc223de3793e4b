//! Patches.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::client::{MERGE, Reply};
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

/// A Deployment whose pods have these containers.
fn deployment(containers: &Value) -> Value {
    json!({
        "metadata": { "name": "a" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": containers },
            },
        },
    })
}

pub(super) async fn strategic_patches_know_containers(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at("apps/v1", "deployments"));
    let container = |name: &str| json!({ "name": name, "image": "none" });
    let deployment = deployment(&json!([container("one"), container("two")]));
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
    let trial = api
        .patch(
            &format!("{path}&dryRun=All"),
            APPLY,
            &map(json!({ "t": "u" })),
        )
        .await?;
    let after = api.patch(&path, APPLY, &map(json!({}))).await?;
    Ok(json!([
        trial.shown(),
        after.shown(),
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

/// Writes whose fields are of other types than the kind has them, in every way to write.
pub(super) async fn built_in_kinds_keep_their_types(stage: Stage) -> Result<Value> {
    let leases = stage.at("coordination.k8s.io/v1", "leases");
    let deployments = stage.at("apps/v1", "deployments");
    let lease = json!({ "metadata": { "name": "a" }, "spec": { "leaseDurationSeconds": 40 } });
    let deployment = deployment(&json!([{ "name": "main", "image": "none" }]));
    let node = named(&stage.namespace);
    let metadata = [
        json!({ "metadata": "x" }),
        json!({ "metadata": { "labels": "x" } }),
        json!({ "metadata": { "annotations": { "a": 1 } } }),
        json!({ "metadata": { "finalizers": "x" } }),
        json!({ "metadata": { "ownerReferences": ["x"] } }),
    ];
    let specs = [
        json!({ "spec": "x" }),
        json!({ "spec": [] }),
        json!({ "spec": { "renewTime": 5 } }),
        json!({ "spec": { "renewTime": "yesterday" } }),
        json!({ "spec": { "leaseDurationSeconds": "a" } }),
    ];
    let replicas = [
        json!({ "spec": { "replicas": -1 } }),
        json!({ "spec": { "replicas": "a" } }),
        json!({ "spec": { "replicas": 1.5 } }),
        json!({ "spec": { "replicas": 1_u64 << 31 } }),
        json!({ "spec": [] }),
    ];
    let data = [json!({ "data": "x" }), json!({ "data": { "k": 1 } })];
    let taints = [
        json!({ "spec": { "taints": "x" } }),
        json!({ "spec": { "taints": [1] } }),
    ];
    let leases_wrong = [&metadata[..], &specs].concat();
    let mut seen = Vec::new();
    for (path, object, wrong) in [
        (leases, lease, &leases_wrong[..]),
        (deployments, deployment, &replicas),
        (stage.configs(), named("a"), &data),
        ("/api/v1/nodes".to_owned(), node, &taints),
    ] {
        seen.push(wrongly_written(&stage, &path, &object, wrong).await?);
    }
    let status = format!("/api/v1/nodes/{}/status", stage.namespace);
    for wrong in [
        json!({ "status": "x" }),
        json!({ "status": { "conditions": {} } }),
        json!({ "status": { "conditions": ["x"] } }),
    ] {
        seen.push(told(&stage.admin.merge(&status, &wrong).await?));
    }
    let own = format!("{}/a", stage.at("coordination.k8s.io/v1", "leases"));
    let another = format!("{}/c", stage.at("coordination.k8s.io/v1", "leases"));
    for (path, name) in [(own, "a"), (another, "c")] {
        for spec in [json!("x"), json!({ "leaseDurationSeconds": "a" })] {
            let wrong = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": { "name": name },
                "spec": spec,
            });
            let path = format!("{path}?fieldManager=me&force=true");
            seen.push(told(&stage.admin.patch(&path, APPLY, &wrong).await?));
        }
    }
    let scale = format!("{}/a/scale", stage.at("apps/v1", "deployments"));
    for count in [json!("a"), json!(1.5), json!({})] {
        let wrong = json!({ "spec": { "replicas": count } });
        seen.push(told(&stage.admin.merge(&scale, &wrong).await?));
    }
    Ok(json!(seen))
}

/// What the server says of each of them as patches, as an update and as something new; and that what
/// was there is as it was.
async fn wrongly_written(
    stage: &Stage,
    path: &str,
    object: &Value,
    wrong: &[Value],
) -> Result<Value> {
    let api = &stage.admin;
    let made = api.post(path, object).await?.ok()?;
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let own = format!("{path}/{name}");
    let mut seen = Vec::new();
    for wrong in wrong {
        for kind in [MERGE, STRATEGIC] {
            seen.push(told(&api.patch(&own, kind, wrong).await?));
        }
        let mut replaced = made.clone();
        for (field, value) in wrong.as_object().into_iter().flatten() {
            let operation =
                json!([{ "op": "replace", "path": format!("/{field}"), "value": value }]);
            seen.push(told(&api.patch(&own, JSON_PATCH, &operation).await?));
            match (&mut replaced[field], value) {
                (Value::Object(there), Value::Object(new)) => there.extend(new.clone()),
                (there, new) => *there = new.clone(),
            }
        }
        seen.push(told(&api.put(&own, &replaced).await?));
        if replaced["metadata"].is_object() {
            replaced["metadata"]["name"] = "another".into();
            replaced["metadata"]["resourceVersion"] = "".into();
        }
        seen.push(told(&api.post(path, &replaced).await?));
    }
    seen.push(api.get(&own).await?.ok()?["metadata"].clone());
    Ok(json!(seen))
}

/// A refusal without its words, which are the decoder's.
fn told(reply: &Reply) -> Value {
    json!([reply.status, reply.body["reason"]])
}
