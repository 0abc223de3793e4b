//! Watches: order, selectors, timeouts and initial events.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Fixture, named};

async fn list_version(fixture: &Fixture) -> Result<String> {
    let list = fixture.admin.get(&fixture.config_maps()).await?.ok()?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.unwrap_or_default().to_owned())
}

/// Creates, changes and deletes a config map.
async fn create_change_delete(fixture: &Fixture, name: &str) -> Result<()> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    api.post(&path, &named(name)).await?.ok()?;
    let path = format!("{path}/{name}");
    api.merge(&path, &json!({ "data": { "k": "v" } }))
        .await?
        .ok()?;
    api.delete(&path, &Value::Null).await?.ok()?;
    Ok(())
}

pub(super) async fn events_in_order(fixture: Fixture) -> Result<Value> {
    let from = list_version(&fixture).await?;
    create_change_delete(&fixture, "a").await?;
    let path = format!("{}?watch=1&resourceVersion={from}", fixture.config_maps());
    let past = fixture.admin.watch(&path, 3).await?;
    let from = list_version(&fixture).await?;
    let path = format!(
        "{}?watch=true&resourceVersion={from}",
        fixture.config_maps()
    );
    let (live, lived) = tokio::join!(
        fixture.admin.watch(&path, 3),
        create_change_delete(&fixture, "b")
    );
    lived?;
    let live = live?;
    let kinds: Vec<&Value> = live.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    Ok(json!([past, live]))
}

pub(super) async fn selector_changes(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let from = list_version(&fixture).await?;
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

pub(super) async fn no_version(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    api.post(&path, &named("a")).await?.ok()?;
    let unset = api.watch(&format!("{path}?watch=1"), 1).await?;
    let any = api
        .watch(&format!("{path}?watch=1&resourceVersion=0"), 1)
        .await?;
    Ok(json!([unset, any]))
}

pub(super) async fn timeout(fixture: Fixture) -> Result<Value> {
    let from = list_version(&fixture).await?;
    let query = format!("watch=1&resourceVersion={from}&timeoutSeconds=1&allowWatchBookmarks=true");
    let path = format!("{}?{query}", fixture.config_maps());
    let events = fixture.admin.watch(&path, 10).await?;
    // A bookmark is optional. There are no other events.
    Ok(json!(
        events.iter().all(|event| event["type"] == "BOOKMARK")
    ))
}

pub(super) async fn negative_timeout(fixture: Fixture) -> Result<Value> {
    let from = list_version(&fixture).await?;
    let query = format!("watch=1&resourceVersion={from}&timeoutSeconds=-1");
    let path = format!("{}?{query}", fixture.config_maps());
    Ok(json!(fixture.admin.watch(&path, 10).await?))
}

pub(super) async fn send_initial_events(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    api.post(&path, &named("a")).await?.ok()?;
    api.post(&path, &named("b")).await?.ok()?;
    let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let mut events = api.watch(&format!("{path}?{query}"), 3).await?;
    assert_eq!(events[2]["type"], "BOOKMARK");
    // The version of the bookmark belongs to no object.
    events[2]["object"]["metadata"]["resourceVersion"] = Value::Null;
    let query = "watch=1&sendInitialEvents=true";
    let invalid = api.get(&format!("{path}?{query}")).await?;
    Ok(json!([events, invalid.status]))
}

pub(super) async fn single_object(fixture: Fixture) -> Result<Value> {
    let from = list_version(&fixture).await?;
    create_change_delete(&fixture, "a").await?;
    create_change_delete(&fixture, "b").await?;
    let query = format!("watch=1&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let events = fixture
        .admin
        .watch(&format!("{}?{query}", fixture.config_maps()), 3)
        .await?;
    Ok(json!(events))
}
