//! Lists: order, pages, selectors, versions and tables.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Fixture, named};

/// Creates config maps with labels.
async fn create_config_maps(fixture: &Fixture, names: &[&str]) -> Result<()> {
    for (number, name) in names.iter().enumerate() {
        let tier = if number % 2 == 0 { "front" } else { "back" };
        let map = json!({
            "metadata": { "name": name, "labels": { "tier": tier, "number": number.to_string() } },
        });
        fixture
            .admin
            .post(&fixture.config_maps(), &map)
            .await?
            .ok()?;
    }
    Ok(())
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

pub(super) async fn order_and_version(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["c", "a", "b"]).await?;
    let list = fixture.admin.get(&fixture.config_maps()).await?.ok()?;
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert!(list["metadata"]["resourceVersion"].is_string());
    let empty = fixture.admin.get(&fixture.core_path("pods")).await?.ok()?;
    Ok(json!([list, empty["items"], empty["kind"]]))
}

pub(super) async fn pages_share_a_version(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a", "b", "c", "d", "e"]).await?;
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let first = api.get(&format!("{path}?limit=2")).await?.ok()?;
    api.delete(&format!("{path}/c"), &Value::Null).await?.ok()?;
    api.post(&path, &named("f")).await?.ok()?;
    let mut pages = vec![first];
    while let Some(token) = pages
        .last()
        .and_then(|page| page["metadata"]["continue"].as_str())
    {
        let next = api
            .get(&format!("{path}?limit=2&continue={token}"))
            .await?
            .ok()?;
        pages.push(next);
    }
    let shown = pages
        .iter()
        .map(|page| json!([names(page), page["metadata"]]));
    let shown: Vec<Value> = shown.collect();
    assert_eq!(shown[1][0], json!(["c", "d"]));
    Ok(json!(shown))
}

pub(super) async fn invalid_continue_token(fixture: Fixture) -> Result<Value> {
    let broken = fixture
        .admin
        .get(&format!("{}?limit=2&continue=abc", fixture.config_maps()))
        .await?;
    Ok(json!(broken.status))
}

pub(super) async fn label_selectors(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a", "b", "c", "d"]).await?;
    let mut found = Vec::new();
    for selector in [
        "tier=front",
        "tier%3D%3Dback",
        "tier!=front",
        "tier%20in%20(front,side)",
        "tier%20notin%20(front)",
        "absent",
        "!absent",
        "tier,number%3E1",
        "number%3C2,tier=front",
    ] {
        let path = format!("{}?labelSelector={selector}", fixture.config_maps());
        let list = fixture.admin.get(&path).await?.ok()?;
        found.push(json!({ selector: names(&list) }));
    }
    assert_eq!(found[0]["tier=front"], json!(["a", "c"]));
    let invalid = fixture
        .admin
        .get(&format!("{}?labelSelector=a%20b", fixture.config_maps()))
        .await?;
    found.push(invalid.status.into());
    Ok(json!(found))
}

pub(super) async fn field_selectors(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a", "b"]).await?;
    let api = &fixture.admin;
    for (name, node) in [("one", "n1"), ("two", "n2")] {
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "none" }] },
        });
        api.post(&fixture.core_path("pods"), &pod).await?.ok()?;
    }
    let mut found = Vec::new();
    for (path, selector) in [
        (fixture.config_maps(), "metadata.name=b"),
        (
            fixture.config_maps(),
            "metadata.name!=b,metadata.name!=kube-root-ca.crt",
        ),
        ("/api/v1/configmaps".to_owned(), "metadata.name=nothing"),
        (fixture.core_path("pods"), "spec.nodeName=n2"),
        (
            fixture.core_path("pods"),
            "status.phase=Pending,spec.nodeName!=n2",
        ),
    ] {
        let list = api
            .get(&format!("{path}?fieldSelector={selector}"))
            .await?
            .ok()?;
        found.push(json!({ selector: names(&list) }));
    }
    let invalid = api
        .get(&format!("{}?fieldSelector=data.k=v", fixture.config_maps()))
        .await?;
    found.push(invalid.record());
    Ok(json!(found))
}

pub(super) async fn resource_version_match(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a", "b"]).await?;
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let version = api.get(&path).await?.ok()?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap_or_default();
    let mut responses = Vec::new();
    for query in [
        "resourceVersion=0".to_owned(),
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={version}&resourceVersionMatch=Exact"),
        format!("resourceVersion={version}&limit=1"),
    ] {
        let list = api.get(&format!("{path}?{query}")).await?.ok()?;
        responses.push(json!(names(&list)));
    }
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=abc",
    ] {
        let response = api.get(&format!("{path}?{query}")).await?;
        responses.push(json!([response.status, response.body["reason"]]));
    }
    let read = api
        .get(&format!("{path}/a?resourceVersion=0"))
        .await?
        .ok()?;
    responses.push(read["metadata"]["name"].clone());
    let ahead = api
        .get(&format!("{path}?resourceVersion=999999999"))
        .await?;
    responses.push(json!([
        ahead.status,
        ahead.body["reason"],
        ahead.body["details"]["causes"]
    ]));
    Ok(json!(responses))
}

pub(super) async fn exact_past_version(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a", "b"]).await?;
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let version = api.get(&path).await?.ok()?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap_or_default();
    api.delete(&format!("{path}/a"), &Value::Null).await?.ok()?;
    api.merge(&format!("{path}/b"), &json!({ "data": { "k": "v" } }))
        .await?
        .ok()?;
    api.post(&path, &named("c")).await?.ok()?;
    let query = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let past = api.get(&format!("{path}?{query}")).await?.ok()?;
    assert_eq!(names(&past), ["a", "b"]);
    Ok(past)
}

pub(super) async fn table_of_config_maps(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a"]).await?;
    let api = fixture
        .admin
        .accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let list = api.get(&fixture.config_maps()).await?;
    let one = api.get(&format!("{}/a", fixture.config_maps())).await?;
    let mut shown = Vec::new();
    for response in [list, one] {
        let mut table = response.ok()?;
        let columns = table["columnDefinitions"]
            .as_array_mut()
            .into_iter()
            .flatten();
        for column in columns {
            column["description"] = Value::Null;
            column["type"] = Value::Null;
        }
        // The age of a new object depends on the time of the request.
        table["rows"][0]["cells"][2] = Value::Null;
        shown.push(table);
    }
    Ok(json!(shown))
}

pub(super) async fn table_of_nodes(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    let mut records = Vec::new();
    let table = api.accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    for (status, is_unschedulable) in [
        ("True", false),
        ("True", true),
        ("False", false),
        ("Unknown", false),
        ("Unknown", true),
        ("", false),
    ] {
        let name = format!("{}-{}", fixture.namespace, records.len());
        let mut node = named(&name);
        node["spec"] = json!({ "unschedulable": is_unschedulable });
        if !status.is_empty() {
            let condition = json!({ "type": "Ready", "status": status });
            node["status"] = json!({ "conditions": [condition] });
        }
        api.post("/api/v1/nodes", &node).await?.ok()?;
        let shown = table.get(&format!("/api/v1/nodes/{name}")).await?.ok()?;
        let cells = &shown["rows"][0]["cells"];
        records.push(json!([cells[0], cells[1], cells[2]]));
    }
    Ok(json!(records))
}

pub(super) async fn metadata_only(fixture: Fixture) -> Result<Value> {
    create_config_maps(&fixture, &["a"]).await?;
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let one = fixture
        .admin
        .accepting(one)
        .get(&format!("{}/a", fixture.config_maps()))
        .await?;
    let list = fixture
        .admin
        .accepting(list)
        .get(&fixture.config_maps())
        .await?;
    Ok(json!([one.record(), list.record()]))
}
