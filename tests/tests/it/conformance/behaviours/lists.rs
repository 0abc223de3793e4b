//! Lists.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

/// Some config maps with labels.
async fn maps(stage: &Stage, names: &[&str]) -> Result<()> {
    for (number, name) in names.iter().enumerate() {
        let tier = if number % 2 == 0 { "front" } else { "back" };
        let map = json!({
            "metadata": { "name": name, "labels": { "tier": tier, "number": number.to_string() } },
        });
        stage.admin.post(&stage.configs(), &map).await?.ok()?;
    }
    Ok(())
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

pub(super) async fn a_list_has_a_version_and_an_order(stage: Stage) -> Result<Value> {
    maps(&stage, &["c", "a", "b"]).await?;
    let list = stage.admin.get(&stage.configs()).await?.ok()?;
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert!(list["metadata"]["resourceVersion"].is_string());
    let empty = stage.admin.get(&stage.core("pods")).await?.ok()?;
    Ok(json!([list, empty["items"], empty["kind"]]))
}

pub(super) async fn pages_are_of_one_version(stage: Stage) -> Result<Value> {
    maps(&stage, &["a", "b", "c", "d", "e"]).await?;
    let (api, path) = (&stage.admin, stage.configs());
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

pub(super) async fn a_token_that_is_none(stage: Stage) -> Result<Value> {
    let broken = stage
        .admin
        .get(&format!("{}?limit=2&continue=abc", stage.configs()))
        .await?;
    Ok(json!(broken.status))
}

pub(super) async fn labels_select(stage: Stage) -> Result<Value> {
    maps(&stage, &["a", "b", "c", "d"]).await?;
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
        let path = format!("{}?labelSelector={selector}", stage.configs());
        let list = stage.admin.get(&path).await?.ok()?;
        found.push(json!({ selector: names(&list) }));
    }
    assert_eq!(found[0]["tier=front"], json!(["a", "c"]));
    let wrong = stage
        .admin
        .get(&format!("{}?labelSelector=a%20b", stage.configs()))
        .await?;
    found.push(wrong.status.into());
    Ok(json!(found))
}

pub(super) async fn fields_select(stage: Stage) -> Result<Value> {
    maps(&stage, &["a", "b"]).await?;
    let api = &stage.admin;
    for (name, node) in [("one", "n1"), ("two", "n2")] {
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "none" }] },
        });
        api.post(&stage.core("pods"), &pod).await?.ok()?;
    }
    let mut found = Vec::new();
    for (path, selector) in [
        (stage.configs(), "metadata.name=b"),
        (
            stage.configs(),
            "metadata.name!=b,metadata.name!=kube-root-ca.crt",
        ),
        ("/api/v1/configmaps".to_owned(), "metadata.name=nothing"),
        (stage.core("pods"), "spec.nodeName=n2"),
        (stage.core("pods"), "status.phase=Pending,spec.nodeName!=n2"),
    ] {
        let list = api
            .get(&format!("{path}?fieldSelector={selector}"))
            .await?
            .ok()?;
        found.push(json!({ selector: names(&list) }));
    }
    let wrong = api
        .get(&format!("{}?fieldSelector=data.k=v", stage.configs()))
        .await?;
    found.push(wrong.shown());
    Ok(json!(found))
}

pub(super) async fn versions_and_matches(stage: Stage) -> Result<Value> {
    maps(&stage, &["a", "b"]).await?;
    let (api, path) = (&stage.admin, stage.configs());
    let version = api.get(&path).await?.ok()?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap_or_default();
    let mut replies = Vec::new();
    for query in [
        "resourceVersion=0".to_owned(),
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={version}&resourceVersionMatch=Exact"),
        format!("resourceVersion={version}&limit=1"),
    ] {
        let list = api.get(&format!("{path}?{query}")).await?.ok()?;
        replies.push(json!(names(&list)));
    }
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=abc",
    ] {
        let reply = api.get(&format!("{path}?{query}")).await?;
        replies.push(json!([reply.status, reply.body["reason"]]));
    }
    let read = api
        .get(&format!("{path}/a?resourceVersion=0"))
        .await?
        .ok()?;
    replies.push(read["metadata"]["name"].clone());
    let ahead = api
        .get(&format!("{path}?resourceVersion=999999999"))
        .await?;
    replies.push(json!([
        ahead.status,
        ahead.body["reason"],
        ahead.body["details"]["causes"]
    ]));
    Ok(json!(replies))
}

pub(super) async fn a_list_of_the_past(stage: Stage) -> Result<Value> {
    maps(&stage, &["a", "b"]).await?;
    let (api, path) = (&stage.admin, stage.configs());
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

pub(super) async fn a_table_for_people(stage: Stage) -> Result<Value> {
    maps(&stage, &["a"]).await?;
    let api = stage
        .admin
        .accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let list = api.get(&stage.configs()).await?;
    let one = api.get(&format!("{}/a", stage.configs())).await?;
    let mut shown = Vec::new();
    for reply in [list, one] {
        let mut table = reply.ok()?;
        let columns = table["columnDefinitions"]
            .as_array_mut()
            .into_iter()
            .flatten();
        for column in columns {
            column["description"] = Value::Null;
            column["type"] = Value::Null;
        }
        // The age of what was just made.
        table["rows"][0]["cells"][2] = Value::Null;
        shown.push(table);
    }
    Ok(json!(shown))
}

pub(super) async fn a_table_of_nodes(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
    let mut seen = Vec::new();
    let table = api.accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    for (status, is_closed) in [
        ("True", false),
        ("True", true),
        ("False", false),
        ("Unknown", false),
        ("Unknown", true),
        ("", false),
    ] {
        let name = format!("{}-{}", stage.namespace, seen.len());
        let mut node = named(&name);
        node["spec"] = json!({ "unschedulable": is_closed });
        if !status.is_empty() {
            let condition = json!({ "type": "Ready", "status": status });
            node["status"] = json!({ "conditions": [condition] });
        }
        api.post("/api/v1/nodes", &node).await?.ok()?;
        let shown = table.get(&format!("/api/v1/nodes/{name}")).await?.ok()?;
        let cells = &shown["rows"][0]["cells"];
        seen.push(json!([cells[0], cells[1], cells[2]]));
    }
    Ok(json!(seen))
}

pub(super) async fn metadata_alone(stage: Stage) -> Result<Value> {
    maps(&stage, &["a"]).await?;
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let one = stage
        .admin
        .accepting(one)
        .get(&format!("{}/a", stage.configs()))
        .await?;
    let list = stage.admin.accepting(list).get(&stage.configs()).await?;
    Ok(json!([one.shown(), list.shown()]))
}
