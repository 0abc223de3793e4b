//! Patches of all types.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::raw_client::{MERGE, RawResponse};
use crate::conformance::{Fixture, named};

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) async fn merge_patch(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let map = json!({
        "metadata": { "name": "a", "annotations": { "x": "1", "y": "2" } },
        "data": { "k": "v" },
    });
    api.post(&path, &map).await?.ok()?;
    let mut records = Vec::new();
    for patch in [
        json!({ "metadata": { "annotations": { "x": null, "z": "3" } } }),
        json!({ "data": { "l": "w" } }),
        json!({ "metadata": { "annotations": null }, "data": null }),
        json!({ "metadata": { "annotations": { "only": "" } } }),
        json!({ "metadata": { "annotations": { "only": null } } }),
    ] {
        records.push(api.merge(&format!("{path}/a"), &patch).await?.record());
    }
    Ok(json!(records))
}

pub(super) async fn merge_patch_conflicts(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let created = api.post(&path, &named("a")).await?.ok()?;
    let patch = |value: &str| {
        json!({
            "metadata": { "resourceVersion": created["metadata"]["resourceVersion"] },
            "data": { "k": value },
        })
    };
    let good = api.merge(&format!("{path}/a"), &patch("v")).await?;
    let stale = api.merge(&format!("{path}/a"), &patch("w")).await?;
    assert_eq!((good.status, stale.status), (200, 409));
    Ok(json!([good.record(), stale.record()]))
}

pub(super) async fn json_patch(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
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
    Ok(json!([good.record(), failing.status, missing.status]))
}

pub(super) async fn strategic_merge_of_conditions(fixture: Fixture) -> Result<Value> {
    let (api, name) = (&fixture.admin, &fixture.namespace);
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

/// A Deployment with these containers.
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

pub(super) async fn strategic_merge_of_containers(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path("apps/v1", "deployments"));
    let container = |name: &str| json!({ "name": name, "image": "none" });
    let deployment = deployment(&json!([container("one"), container("two")]));
    api.post(&path, &deployment).await?.ok()?;
    let of = |containers: Value| {
        let template = json!({ "spec": { "containers": containers } });
        json!({ "spec": { "template": template } })
    };
    let mut records = Vec::new();
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
        records.push(json!([
            short.collect::<Vec<_>>(),
            patched["metadata"]["generation"]
        ]));
    }
    Ok(json!(records))
}

pub(super) async fn server_side_apply(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let map = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data,
        })
    };
    let unauthenticated = api
        .patch(&format!("{path}/a"), APPLY, &map(json!({})))
        .await?;
    let path = format!("{path}/a?fieldManager=me&force=true");
    let created = api.patch(&path, APPLY, &map(json!({ "k": "v" }))).await?;
    let changed = api
        .patch(&path, APPLY, &map(json!({ "k": "w", "l": "x" })))
        .await?;
    let same = api
        .patch(&path, APPLY, &map(json!({ "k": "w", "l": "x" })))
        .await?;
    let less = api.patch(&path, APPLY, &map(json!({ "k": "w" }))).await?;
    assert_eq!((created.status, changed.status), (201, 200));
    let trial = api
        .patch(
            &format!("{path}&dryRun=All"),
            APPLY,
            &map(json!({ "t": "u" })),
        )
        .await?;
    let after = api.patch(&path, APPLY, &map(json!({}))).await?;
    Ok(json!([
        trial.record(),
        after.record(),
        created.record(),
        changed.record(),
        same.record(),
        less.record(),
        unauthenticated.record(),
    ]))
}

pub(super) async fn invalid_patches(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
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

/// Writes fields with values of wrong types, by each kind of write.
pub(super) async fn wrong_field_types(fixture: Fixture) -> Result<Value> {
    let leases = fixture.group_path("coordination.k8s.io/v1", "leases");
    let deployments = fixture.group_path("apps/v1", "deployments");
    let lease = json!({ "metadata": { "name": "a" }, "spec": { "leaseDurationSeconds": 40 } });
    let deployment = deployment(&json!([{ "name": "main", "image": "none" }]));
    let node = named(&fixture.namespace);
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
    let mut records = Vec::new();
    for (path, object, invalid) in [
        (leases, lease, &leases_wrong[..]),
        (deployments, deployment, &replicas),
        (fixture.config_maps(), named("a"), &data),
        ("/api/v1/nodes".to_owned(), node, &taints),
    ] {
        records.push(write_invalid(&fixture, &path, &object, invalid).await?);
    }
    let status = format!("/api/v1/nodes/{}/status", fixture.namespace);
    for invalid in [
        json!({ "status": "x" }),
        json!({ "status": { "conditions": {} } }),
        json!({ "status": { "conditions": ["x"] } }),
    ] {
        records.push(status_and_reason(
            &fixture.admin.merge(&status, &invalid).await?,
        ));
    }
    let own = format!(
        "{}/a",
        fixture.group_path("coordination.k8s.io/v1", "leases")
    );
    let another = format!(
        "{}/c",
        fixture.group_path("coordination.k8s.io/v1", "leases")
    );
    for (path, name) in [(own, "a"), (another, "c")] {
        for spec in [json!("x"), json!({ "leaseDurationSeconds": "a" })] {
            let invalid = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": { "name": name },
                "spec": spec,
            });
            let path = format!("{path}?fieldManager=me&force=true");
            records.push(status_and_reason(
                &fixture.admin.patch(&path, APPLY, &invalid).await?,
            ));
        }
    }
    let scale = format!("{}/a/scale", fixture.group_path("apps/v1", "deployments"));
    for count in [json!("a"), json!(1.5), json!({})] {
        let invalid = json!({ "spec": { "replicas": count } });
        records.push(status_and_reason(
            &fixture.admin.merge(&scale, &invalid).await?,
        ));
    }
    Ok(json!(records))
}

/// Sends each invalid value as patches, as an update and as a new object, and records the
/// responses. Ends with the metadata of the object, which must be unchanged.
async fn write_invalid(
    fixture: &Fixture,
    path: &str,
    object: &Value,
    invalid: &[Value],
) -> Result<Value> {
    let api = &fixture.admin;
    let created = api.post(path, object).await?.ok()?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    let own = format!("{path}/{name}");
    let mut records = Vec::new();
    for invalid in invalid {
        for kind in [MERGE, STRATEGIC] {
            records.push(status_and_reason(&api.patch(&own, kind, invalid).await?));
        }
        let mut replaced = created.clone();
        for (field, value) in invalid.as_object().into_iter().flatten() {
            let operation =
                json!([{ "op": "replace", "path": format!("/{field}"), "value": value }]);
            records.push(status_and_reason(
                &api.patch(&own, JSON_PATCH, &operation).await?,
            ));
            match (&mut replaced[field], value) {
                (Value::Object(there), Value::Object(new)) => there.extend(new.clone()),
                (there, new) => *there = new.clone(),
            }
        }
        records.push(status_and_reason(&api.put(&own, &replaced).await?));
        if replaced["metadata"].is_object() {
            replaced["metadata"]["name"] = "another".into();
            replaced["metadata"]["resourceVersion"] = "".into();
        }
        records.push(status_and_reason(&api.post(path, &replaced).await?));
    }
    records.push(api.get(&own).await?.ok()?["metadata"].clone());
    Ok(json!(records))
}

/// Returns the status and the reason of a rejection. The message depends on the decoder.
fn status_and_reason(response: &RawResponse) -> Value {
    json!([response.status, response.body["reason"]])
}
