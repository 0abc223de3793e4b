//! Discovery of groups, versions and resources.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Fixture;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Groups and versions that both servers have.
const SHARED: [(&str, &str); 5] = [
    ("", "/api/v1"),
    ("apps", "/apis/apps/v1"),
    ("coordination.k8s.io", "/apis/coordination.k8s.io/v1"),
    ("events.k8s.io", "/apis/events.k8s.io/v1"),
    ("discovery.k8s.io", "/apis/discovery.k8s.io/v1"),
];

/// The resources to compare.
const USED: [&str; 14] = [
    "configmaps",
    "deployments",
    "deployments/scale",
    "deployments/status",
    "endpointslices",
    "events",
    "leases",
    "namespaces",
    "nodes",
    "nodes/status",
    "pods",
    "pods/status",
    "secrets",
    "statefulsets/scale",
];

/// Returns the [`USED`] resources of a list, whose names are in the field `name`. Fields that only
/// order caches are removed.
fn used(list: &Value, name: &str) -> Vec<Value> {
    let all = list.as_array().into_iter().flatten();
    let mut used: Vec<Value> = all
        .filter(|resource| USED.iter().any(|used| resource[name] == *used))
        .cloned()
        .collect();
    for resource in &mut used {
        if let Some(resource) = resource.as_object_mut() {
            resource.remove("storageVersionHash");
        }
        if let Some(verbs) = resource["verbs"].as_array_mut() {
            verbs.sort_by_key(Value::to_string);
        }
    }
    used.sort_by_key(|resource| resource[name].to_string());
    used
}

pub(super) async fn groups_and_versions(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    let core = api.get("/api").await?.ok()?;
    let all = api.get("/apis").await?.ok()?;
    let groups = all["groups"].as_array().into_iter().flatten();
    let shared = groups.filter(|group| {
        SHARED
            .iter()
            .any(|(name, _)| !name.is_empty() && group["name"] == *name)
    });
    let mut shared: Vec<&Value> = shared.collect();
    shared.sort_by_key(|group| group["name"].to_string());
    let one = api.get("/apis/coordination.k8s.io").await?.ok()?;
    Ok(json!([
        core["kind"],
        core["versions"],
        all["kind"],
        shared.len(),
        one
    ]))
}

pub(super) async fn resources(fixture: Fixture) -> Result<Value> {
    let mut records = Vec::new();
    for (_, path) in SHARED {
        let list = fixture.admin.get(path).await?.ok()?;
        let used = used(&list["resources"], "name");
        records.push(json!([list["kind"], list["groupVersion"], used]));
    }
    assert!(!records[1][2].as_array().is_none_or(Vec::is_empty));
    Ok(json!(records))
}

pub(super) async fn aggregated(fixture: Fixture) -> Result<Value> {
    let api = fixture.admin.accepting(AGGREGATED);
    let mut records = Vec::new();
    for path in ["/api", "/apis"] {
        let response = api.get(path).await?;
        records.push(json!([
            response.content_type,
            response.body["kind"],
            response.body["apiVersion"]
        ]));
        let items = response.body["items"].as_array().into_iter().flatten();
        let mut items: Vec<&Value> = items
            .filter(|group| {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                SHARED.iter().any(|(shared, _)| *shared == name)
            })
            .collect();
        items.sort_by_key(|group| group["metadata"]["name"].to_string());
        for group in items {
            let version = &group["versions"][0];
            let mut resources = used(&version["resources"], "resource");
            for resource in &mut resources {
                let subresource = used_subresources(&resource["subresources"]);
                resource["subresources"] = subresource;
            }
            records.push(json!([
                group["metadata"]["name"],
                version["version"],
                resources
            ]));
        }
    }
    Ok(json!(records))
}

/// Returns the scale and status subresources.
fn used_subresources(subresources: &Value) -> Value {
    let all = subresources.as_array().into_iter().flatten();
    let used = all.filter(|subresource| {
        ["scale", "status"]
            .iter()
            .any(|used| subresource["subresource"] == *used)
    });
    let mut used: Vec<Value> = used.cloned().collect();
    for subresource in &mut used {
        if let Some(subresource) = subresource.as_object_mut() {
            subresource.remove("acceptedTypes");
        }
    }
    used.sort_by_key(|subresource| subresource["subresource"].to_string());
    json!(used)
}

pub(super) async fn unknown_groups(fixture: Fixture) -> Result<Value> {
    let mut records = Vec::new();
    for path in [
        "/apis/no.such.group",
        "/apis/no.such.group/v1",
        "/apis/apps/v9",
        "/api/v9",
    ] {
        records.push(fixture.admin.get(path).await?.status);
    }
    Ok(json!(records))
}
