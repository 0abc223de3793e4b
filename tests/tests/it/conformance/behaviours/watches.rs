//! Watches.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

async fn version(stage: &Stage) -> Result<String> {
    let list = stage.admin.get(&stage.configs()).await?.ok()?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.unwrap_or_default().to_owned())
}

/// Creates, changes and deletes.
async fn life(stage: &Stage, name: &str) -> Result<()> {
    let (api, path) = (&stage.admin, stage.configs());
    api.post(&path, &named(name)).await?.ok()?;
    let path = format!("{path}/{name}");
    api.merge(&path, &json!({ "data": { "k": "v" } }))
        .await?
        .ok()?;
    api.delete(&path, &Value::Null).await?.ok()?;
    Ok(())
}

pub(super) async fn changes_come_in_order(stage: Stage) -> Result<Value> {
    let from = version(&stage).await?;
    life(&stage, "a").await?;
    let path = format!("{}?watch=1&resourceVersion={from}", stage.configs());
    let past = stage.admin.watch(&path, 3).await?;
    let from = version(&stage).await?;
    let path = format!("{}?watch=true&resourceVersion={from}", stage.configs());
    let (live, lived) = tokio::join!(stage.admin.watch(&path, 3), life(&stage, "b"));
    lived?;
    let live = live?;
    let kinds: Vec<&Value> = live.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    Ok(json!([past, live]))
}

pub(super) async fn selected_objects_come_and_go(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let from = version(&stage).await?;
    api.post(&path, &named("a")).await?.ok()?;
    for value in ["x", "y", "x"] {
        let patch = json!({ "metadata": { "labels": { "app": value } } });
        api.merge(&format!("{path}/a"), &patch).await?.ok()?;
    }
    api.delete(&format!("{path}/a"), &Value::Null).await?.ok()?;
    let query = format!("watch=1&resourceVersion={from}&labelSelector=app%3Dx");
    let events = api.watch(&format!("{path}?{query}"), 4).await?;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["ADDED", "DELETED", "ADDED", "DELETED"]);
    Ok(json!(events))
}

pub(super) async fn a_watch_without_a_version(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    api.post(&path, &named("a")).await?.ok()?;
    let unset = api.watch(&format!("{path}?watch=1"), 1).await?;
    let any = api
        .watch(&format!("{path}?watch=1&resourceVersion=0"), 1)
        .await?;
    Ok(json!([unset, any]))
}

pub(super) async fn a_watch_ends_in_time(stage: Stage) -> Result<Value> {
    let from = version(&stage).await?;
    let query = format!("watch=1&resourceVersion={from}&timeoutSeconds=1&allowWatchBookmarks=true");
    let path = format!("{}?{query}", stage.configs());
    let events = stage.admin.watch(&path, 10).await?;
    // A bookmark may come or not; nothing else does.
    Ok(json!(
        events.iter().all(|event| event["type"] == "BOOKMARK")
    ))
}

pub(super) async fn a_watch_that_should_have_ended_already(stage: Stage) -> Result<Value> {
    let from = version(&stage).await?;
    let query = format!("watch=1&resourceVersion={from}&timeoutSeconds=-1");
    let path = format!("{}?{query}", stage.configs());
    Ok(json!(stage.admin.watch(&path, 10).await?))
}

pub(super) async fn a_watch_that_begins_with_a_list(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    api.post(&path, &named("a")).await?.ok()?;
    api.post(&path, &named("b")).await?.ok()?;
    let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let mut events = api.watch(&format!("{path}?{query}"), 3).await?;
    assert_eq!(events[2]["type"], "BOOKMARK");
    // The bookmark's version is of no object.
    events[2]["object"]["metadata"]["resourceVersion"] = Value::Null;
    let query = "watch=1&sendInitialEvents=true";
    let wrong = api.get(&format!("{path}?{query}")).await?;
    Ok(json!([events, wrong.status]))
}

pub(super) async fn a_watch_of_one_object(stage: Stage) -> Result<Value> {
    let from = version(&stage).await?;
    life(&stage, "a").await?;
    life(&stage, "b").await?;
    let query = format!("watch=1&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let events = stage
        .admin
        .watch(&format!("{}?{query}", stage.configs()), 3)
        .await?;
    Ok(json!(events))
}
