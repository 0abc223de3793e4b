//! Creating, reading and replacing.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

pub(super) async fn create_read_and_twice(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "a", "labels": { "x": "y" }, "annotations": {} },
        "data": { "k": "v" },
    });
    let made = api.post(&path, &map).await?;
    let read = api.get(&format!("{path}/a")).await?;
    let again = api.post(&path, &map).await?;
    assert_eq!((made.status, again.status), (201, 409));
    Ok(json!([made.shown(), read.shown(), again.shown()]))
}

pub(super) async fn names_are_generated(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let map = json!({ "metadata": { "generateName": "some-" } });
    let mut made = api.post(&path, &map).await?.ok()?;
    let name = made["metadata"]["name"].take();
    let name = name.as_str().unwrap_or_default();
    assert!(name.starts_with("some-") && name.len() == 10, "{name}");
    let none = api.post(&path, &json!({ "metadata": {} })).await?;
    Ok(json!([made, none.shown()]))
}

pub(super) async fn what_is_not_there(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
    let mut replies = Vec::new();
    for path in [
        format!("{}/nothing", stage.configs()),
        format!("{}/nothing", stage.at("apps/v1", "deployments")),
        "/api/v1/nodes/nothing".to_owned(),
        format!("{}/nothing/scale", stage.at("apps/v1", "deployments")),
        stage.core("dragons"),
        "/apis/no.such.group/v1/things".to_owned(),
        "/no/such/path".to_owned(),
    ] {
        replies.push(api.get(&path).await?.shown());
    }
    let path = format!("{}/nothing", stage.configs());
    replies.push(api.merge(&path, &json!({ "data": {} })).await?.shown());
    replies.push(api.put(&path, &named("nothing")).await?.shown());
    replies.push(api.delete(&path, &Value::Null).await?.shown());
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    replies.push(api.post(nowhere, &named("a")).await?.shown());
    replies.push(api.get(nowhere).await?.ok()?["items"].clone());
    Ok(json!(replies))
}

pub(super) async fn what_is_no_object(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let mut replies = Vec::new();
    for map in [
        named("Capital"),
        json!({ "metadata": { "name": "a", "resourceVersion": "7" } }),
        json!({ "metadata": { "name": "a", "namespace": "elsewhere" } }),
    ] {
        replies.push(api.post(&path, &map).await?.shown());
    }
    let wrong = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    replies.push(api.post(&path, &wrong).await?.status.into());
    replies.push(api.post(&path, &json!([1])).await?.status.into());
    Ok(json!(replies))
}

pub(super) async fn updates_rest_on_versions(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let old = api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let mut new = old.clone();
    new["data"] = json!({ "k": "v" });
    let updated = api.put(&path, &new).await?;
    let late = api.put(&path, &new).await?;
    let mut free = named("a");
    free["data"] = json!({ "k": "w" });
    let unconditional = api.put(&path, &free).await?;
    let mut other = free.clone();
    other["metadata"]["uid"] = json!("6e8c9a4e-7d9b-4c55-9a35-0a1b2c3d4e5f");
    let mut foreign = api.put(&path, &other).await?.shown();
    // The uids differ, and the message repeats them.
    foreign["body"]["message"] = Value::Null;
    assert_eq!(late.status, 409);
    Ok(json!([
        old,
        updated.shown(),
        late.shown(),
        unconditional.shown(),
        foreign
    ]))
}

pub(super) async fn updates_must_fit_their_address(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    api.post(&path, &named("a")).await?.ok()?;
    let path = format!("{path}/a");
    let name = api.put(&path, &named("b")).await?;
    let mut elsewhere = named("a");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let namespace = api.put(&path, &elsewhere).await?;
    Ok(json!([name.shown(), namespace.shown()]))
}

pub(super) async fn what_changes_nothing_makes_no_version(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
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

/// What is the same on every server of a deployment: defaults aside.
fn short(deployment: &Value) -> Value {
    json!({
        "metadata": deployment["metadata"],
        "replicas": deployment["spec"]["replicas"],
        "status": deployment["status"].as_object().filter(|status| !status.is_empty()),
    })
}

pub(super) async fn status_is_apart(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at("apps/v1", "deployments"));
    let mut with_status = deployment();
    with_status["status"] = json!({ "replicas": 7 });
    let made = api.post(&path, &with_status).await?.ok()?;
    let both = json!({ "spec": { "replicas": 3 }, "status": { "replicas": 3 } });
    let path = format!("{path}/a");
    let main = api.merge(&path, &both).await?.ok()?;
    let both = json!({ "spec": { "replicas": 4 }, "status": { "replicas": 4 } });
    let status = api.merge(&format!("{path}/status"), &both).await?.ok()?;
    let read = api.get(&format!("{path}/status")).await?.ok()?;
    assert_eq!(status["status"]["replicas"], 4);
    Ok(json!([
        short(&made),
        short(&main),
        short(&status),
        short(&read)
    ]))
}

pub(super) async fn generations_count_what_is_wanted(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at("apps/v1", "deployments"));
    let made = api.post(&path, &deployment()).await?.ok()?;
    let path = format!("{path}/a");
    let mut seen = vec![short(&made)];
    for patch in [
        json!({ "metadata": { "labels": { "x": "y" } } }),
        json!({ "metadata": { "annotations": { "x": "y" } } }),
        json!({ "spec": { "replicas": 5 } }),
        json!({ "spec": { "replicas": 5 } }),
    ] {
        seen.push(short(&api.merge(&path, &patch).await?.ok()?));
    }
    Ok(json!(seen))
}

pub(super) async fn secrets_take_plain_text(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.core("secrets"));
    let secret = json!({ "metadata": { "name": "a" }, "stringData": { "kubeconfig": "text" } });
    let made = api.post(&path, &secret).await?;
    let patch = json!({ "data": { "kubeconfig": "b3RoZXI=" } });
    let changed = api.merge(&format!("{path}/a"), &patch).await?;
    Ok(json!([made.shown(), changed.shown()]))
}

pub(super) async fn trials_leave_nothing(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
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

pub(super) async fn content_types(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
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
    Ok(json!([patch.shown(), post.status, accept.status]))
}
