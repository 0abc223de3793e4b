//! Deleting objects, collections, pods and namespaces.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::conformance::raw_client::RawResponse;
use crate::conformance::{Fixture, named};

pub(super) async fn delete_response(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    let mut records = Vec::new();
    for path in [
        fixture.config_maps(),
        fixture.core_path("secrets"),
        fixture.group_path("coordination.k8s.io/v1", "leases"),
    ] {
        let created = api.post(&path, &named("a")).await?.ok()?;
        records.push(json!({ "uid": created["metadata"]["uid"] }));
        let path = format!("{path}/a");
        records.push(api.delete(&path, &Value::Null).await?.record());
        records.push(api.get(&path).await?.status.into());
    }
    Ok(json!(records))
}

pub(super) async fn finalizers_delay_deletion(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
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
        marked.record(),
        again.record(),
        more.status,
        freed.record()
    ]))
}

pub(super) async fn preconditions(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
    let created = api.post(&path, &named("a")).await?.ok()?["metadata"].clone();
    let path = format!("{path}/a");
    let other = "6e8c9a4e-7d9b-4c55-9a35-0a1b2c3d4e5f";
    let uid = json!({ "preconditions": { "uid": other } });
    let uid = api.delete(&path, &uid).await?;
    let version = json!({ "preconditions": { "resourceVersion": "1" } });
    let version = api.delete(&path, &version).await?;
    let good = json!({
        "preconditions": { "uid": created["uid"], "resourceVersion": created["resourceVersion"] },
    });
    let good = api.delete(&path, &good).await?;
    assert_eq!((uid.status, version.status, good.status), (409, 409, 200));
    Ok(json!([
        created,
        uid.record(),
        version.record(),
        good.record()
    ]))
}

pub(super) async fn collection_by_selector(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.config_maps());
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

pub(super) async fn pod_grace_period(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.core_path("pods"));
    let pod = |name: &str, node: Option<&str>| {
        let mut spec = json!({ "containers": [{ "name": "main", "image": "none" }] });
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    let short = |response: RawResponse| {
        json!([
            response.status,
            response.body["kind"],
            response.body["metadata"]
        ])
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

pub(super) async fn terminating_namespace(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    let name = format!("{}-extra", fixture.namespace);
    let created = api.post("/api/v1/namespaces", &named(&name)).await?;
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
        created.record(),
        deleted.record(),
        read.record(),
        refused
    ]))
}
