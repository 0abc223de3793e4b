//! Creating, reading and updating objects.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::conformance::{Fixture, named};

pub(super) async fn create_read_create_again(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "a", "labels": { "x": "y" }, "annotations": {} },
        "data": { "k": "v" },
    });
    let created = api.post(&path, &map).await?;
    let read = api.get(&format!("{path}/a")).await?;
    let again = api.post(&path, &map).await?;
    assert_eq!((created.status, again.status), (201, 409));
    Ok(json!([created.record(), read.record(), again.record()]))
}

pub(super) async fn generate_name(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let map = json!({ "metadata": { "generateName": "some-" } });
    let mut created = api.post(&path, &map).await?.ok()?;
    let name = created["metadata"]["name"].take();
    let name = name.as_str().unwrap_or_default();
    assert!(name.starts_with("some-") && name.len() == 10, "{name}");
    let none = api.post(&path, &json!({ "metadata": {} })).await?;
    Ok(json!([created, none.record()]))
}

pub(super) async fn not_found(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    let mut responses = Vec::new();
    for path in [
        format!("{}/nothing", fixture.config_maps()),
        format!("{}/nothing", fixture.group_path("apps/v1", "deployments")),
        "/api/v1/nodes/nothing".to_owned(),
        format!(
            "{}/nothing/scale",
            fixture.group_path("apps/v1", "deployments")
        ),
        fixture.core_path("dragons"),
        "/apis/no.such.group/v1/things".to_owned(),
        "/no/such/path".to_owned(),
    ] {
        responses.push(api.get(&path).await?.record());
    }
    let path = format!("{}/nothing", fixture.config_maps());
    responses.push(api.merge(&path, &json!({ "data": {} })).await?.record());
    responses.push(api.put(&path, &named("nothing")).await?.record());
    responses.push(api.delete(&path, &Value::Null).await?.record());
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    responses.push(api.post(nowhere, &named("a")).await?.record());
    responses.push(api.get(nowhere).await?.ok()?["items"].clone());
    Ok(json!(responses))
}

pub(super) async fn invalid_objects(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let mut responses = Vec::new();
    for map in [
        named("Capital"),
        json!({ "metadata": { "name": "a", "resourceVersion": "7" } }),
        json!({ "metadata": { "name": "a", "namespace": "elsewhere" } }),
    ] {
        responses.push(api.post(&path, &map).await?.record());
    }
    let invalid = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    responses.push(api.post(&path, &invalid).await?.status.into());
    responses.push(api.post(&path, &json!([1])).await?.status.into());
    Ok(json!(responses))
}

pub(super) async fn update_conflicts(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let old = api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let mut new = old.clone();
    new["data"] = json!({ "k": "v" });
    let updated = api.put(&path, &new).await?;
    let stale = api.put(&path, &new).await?;
    let mut free = named("a");
    free["data"] = json!({ "k": "w" });
    let unconditional = api.put(&path, &free).await?;
    let mut other = free.clone();
    other["metadata"]["uid"] = json!("6e8c9a4e-7d9b-4c55-9a35-0a1b2c3d4e5f");
    let mut foreign = api.put(&path, &other).await?.record();
    // The message contains the uids, which differ.
    foreign["body"]["message"] = Value::Null;
    assert_eq!(stale.status, 409);
    Ok(json!([
        old,
        updated.record(),
        stale.record(),
        unconditional.record(),
        foreign
    ]))
}

pub(super) async fn update_must_match_path(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let name = api.put(&path, &named("b")).await?;
    let mut elsewhere = named("a");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let namespace = api.put(&path, &elsewhere).await?;
    Ok(json!([name.record(), namespace.record()]))
}

pub(super) async fn no_op_keeps_version(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let old = api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let same = api.put(&path, &old).await?.ok()?;
    let empty = api.merge(&path, &json!({})).await?.ok()?;
    let absent = json!({ "metadata": { "annotations": { "x": null } } });
    let absent = api.merge(&path, &absent).await?.ok()?;
    Ok(json!([old, same, empty, absent]))
}

fn deployment() -> Value {
    json!({
        "metadata": { "name": "a" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "main", "image": "none" }] },
            },
        },
    })
}

/// Returns the part of a Deployment without server-side defaults.
fn short(deployment: &Value) -> Value {
    json!({
        "metadata": deployment["metadata"],
        "replicas": deployment["spec"]["replicas"],
        "status": deployment["status"].as_object().filter(|status| !status.is_empty()),
    })
}

pub(super) async fn status_subresource(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path("apps/v1", "deployments"));
    let mut with_status = deployment();
    with_status["status"] = json!({ "replicas": 7 });
    let created = api.post(&path, &with_status).await?.ok()?;
    let both = json!({ "spec": { "replicas": 3 }, "status": { "replicas": 3 } });
    let path = format!("{path}/a");
    let main = api.merge(&path, &both).await?.ok()?;
    let both = json!({ "spec": { "replicas": 4 }, "status": { "replicas": 4 } });
    let status = api.merge(&format!("{path}/status"), &both).await?.ok()?;
    let read = api.get(&format!("{path}/status")).await?.ok()?;
    assert_eq!(status["status"]["replicas"], 4);
    Ok(json!([
        short(&created),
        short(&main),
        short(&status),
        short(&read)
    ]))
}

pub(super) async fn generation_counts_spec_changes(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path("apps/v1", "deployments"));
    let created = api.post(&path, &deployment()).await?.ok()?;
    let path = format!("{path}/a");
    let mut records = vec![short(&created)];
    for patch in [
        json!({ "metadata": { "labels": { "x": "y" } } }),
        json!({ "metadata": { "annotations": { "x": "y" } } }),
        json!({ "spec": { "replicas": 5 } }),
        json!({ "spec": { "replicas": 5 } }),
    ] {
        records.push(short(&api.merge(&path, &patch).await?.ok()?));
    }
    Ok(json!(records))
}

pub(super) async fn secret_string_data(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.core_path("secrets"));
    let secret = json!({ "metadata": { "name": "a" }, "stringData": { "kubeconfig": "text" } });
    let created = api.post(&path, &secret).await?;
    let patch = json!({ "data": { "kubeconfig": "b3RoZXI=" } });
    let changed = api.merge(&format!("{path}/a"), &patch).await?;
    Ok(json!([created.record(), changed.record()]))
}

pub(super) async fn dry_run(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let tried = api.post(&format!("{path}?dryRun=All"), &named("a")).await?;
    let absent = api.get(&format!("{path}/a")).await?;
    assert_eq!((tried.status, absent.status), (201, 404));
    api.post(&path, &named("a")).await?.ok()?;
    let patch = json!({ "data": { "k": "v" } });
    let patched = api
        .merge(&format!("{path}/a?dryRun=All"), &patch)
        .await?
        .ok()?;
    let same = api.get(&format!("{path}/a")).await?.ok()?;
    Ok(json!([patched["data"], same["data"]]))
}

pub(super) async fn content_types(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    api.post(&path, &named("a")).await?.ok()?;
    let one = format!("{path}/a");
    let body = json!({});
    let patch = api.patch(&one, "application/json", &body).await?;
    let post = api
        .send(Method::POST, &path, "text/plain", Some(&body))
        .await?;
    let accept = api.accepting("text/html").get(&one).await?;
    let any = api.accepting("*/*").get(&one).await?;
    assert_eq!(any.content_type, "application/json");
    Ok(json!([patch.record(), post.status, accept.status]))
}
