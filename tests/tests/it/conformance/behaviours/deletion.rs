//! Deletion.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

pub(super) async fn an_object_goes_and_its_last_state_is_told(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
    let mut seen = Vec::new();
    for path in [
        stage.configs(),
        stage.core("secrets"),
        stage.at("coordination.k8s.io/v1", "leases"),
    ] {
        let made = api.post(&path, &named("a")).await?.ok()?;
        seen.push(json!({ "uid": made["metadata"]["uid"] }));
        let path = format!("{path}/a");
        seen.push(api.delete(&path, &Value::Null).await?.shown());
        seen.push(api.get(&path).await?.status.into());
    }
    Ok(json!(seen))
}

pub(super) async fn finalizers_hold_it_up(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let mut map = named("a");
    map["metadata"]["finalizers"] = json!(["example.com/wait"]);
    api.post(&path, &map).await?.ok()?;
    let path = format!("{path}/a");
    let marked = api.delete(&path, &Value::Null).await?;
    let again = api.delete(&path, &Value::Null).await?;
    let more = json!({ "metadata": { "finalizers": ["example.com/wait", "example.com/more"] } });
    let more = api.merge(&path, &more).await?;
    let free = json!({ "metadata": { "finalizers": null } });
    let freed = api.merge(&path, &free).await?;
    let gone = api.get(&path).await?;
    assert_eq!((marked.status, gone.status), (200, 404));
    Ok(json!([
        marked.shown(),
        again.shown(),
        more.status,
        freed.shown()
    ]))
}

pub(super) async fn preconditions_are_checked(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    let made = api.post(&path, &named("a")).await?.ok()?["metadata"].clone();
    let path = format!("{path}/a");
    let other = "6e8c9a4e-7d9b-4c55-9a35-0a1b2c3d4e5f";
    let uid = json!({ "preconditions": { "uid": other } });
    let uid = api.delete(&path, &uid).await?;
    let version = json!({ "preconditions": { "resourceVersion": "1" } });
    let version = api.delete(&path, &version).await?;
    let good = json!({
        "preconditions": { "uid": made["uid"], "resourceVersion": made["resourceVersion"] },
    });
    let good = api.delete(&path, &good).await?;
    assert_eq!((uid.status, version.status, good.status), (409, 409, 200));
    Ok(json!([made, uid.shown(), version.shown(), good.shown()]))
}

pub(super) async fn a_collection_is_deleted_by_selector(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.configs());
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let map = json!({ "metadata": { "name": name, "labels": { "app": app } } });
        api.post(&path, &map).await?.ok()?;
    }
    let selected = format!("{path}?labelSelector=app%3Dx");
    let deleted = api.send(Method::DELETE, &selected, "", None).await?.ok()?;
    let left = api.get(&path).await?.ok()?;
    let names = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].clone()).collect()
    };
    assert_eq!(names(&left), ["b"]);
    Ok(json!([deleted["kind"], names(&deleted)]))
}

pub(super) async fn a_pod_on_a_node_has_grace(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.core("pods"));
    let pod = |name: &str, node: Option<&str>| {
        let mut spec = json!({ "containers": [{ "name": "main", "image": "none" }] });
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    let short = |reply: super::super::client::Reply| {
        json!([reply.status, reply.body["kind"], reply.body["metadata"]])
    };
    api.post(&path, &pod("free", None)).await?.ok()?;
    let free = api.delete(&format!("{path}/free"), &Value::Null).await?;
    let free_after = api.get(&format!("{path}/free")).await?.status;
    api.post(&path, &pod("bound", Some("n1"))).await?.ok()?;
    let bound = format!("{path}/bound");
    let marked = api.delete(&bound, &Value::Null).await?;
    let again = api
        .delete(&bound, &json!({ "gracePeriodSeconds": 5 }))
        .await?;
    let now = api
        .delete(&format!("{bound}?gracePeriodSeconds=0"), &Value::Null)
        .await?;
    let after = api.get(&bound).await?.status;
    assert_eq!((free_after, after), (404, 404));
    Ok(json!([
        short(free),
        short(marked),
        short(again),
        short(now)
    ]))
}

pub(super) async fn a_namespace_lingers(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
    let name = format!("{}-extra", stage.namespace);
    let made = api.post("/api/v1/namespaces", &named(&name)).await?;
    let path = format!("/api/v1/namespaces/{name}");
    let deleted = api.delete(&path, &Value::Null).await?;
    let read = api.get(&path).await?;
    let refused = api.post(&format!("{path}/configmaps"), &named("a")).await?;
    let refused = json!([
        refused.status,
        refused.body["reason"],
        refused.body["message"]
    ]);
    Ok(json!([
        made.shown(),
        deleted.shown(),
        read.shown(),
        refused
    ]))
}
