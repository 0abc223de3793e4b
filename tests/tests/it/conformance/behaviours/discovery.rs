//! What there is.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Stage;

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

/// Resources that are used.
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

/// The used ones of a list, by `name`, without what only sorts caches.
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

pub(super) async fn groups_and_versions(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
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

pub(super) async fn resources_of_a_version(stage: Stage) -> Result<Value> {
    let mut seen = Vec::new();
    for (_, path) in SHARED {
        let list = stage.admin.get(path).await?.ok()?;
        let used = used(&list["resources"], "name");
        seen.push(json!([list["kind"], list["groupVersion"], used]));
    }
    assert!(!seen[1][2].as_array().is_none_or(Vec::is_empty));
    Ok(json!(seen))
}

pub(super) async fn all_at_once(stage: Stage) -> Result<Value> {
    let api = stage.admin.accepting(AGGREGATED);
    let mut seen = Vec::new();
    for path in ["/api", "/apis"] {
        let reply = api.get(path).await?;
        seen.push(json!([
            reply.content_type,
            reply.body["kind"],
            reply.body["apiVersion"]
        ]));
        let items = reply.body["items"].as_array().into_iter().flatten();
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
                let below = used_below(&resource["subresources"]);
                resource["subresources"] = below;
            }
            seen.push(json!([
                group["metadata"]["name"],
                version["version"],
                resources
            ]));
        }
    }
    Ok(json!(seen))
}

fn used_below(subresources: &Value) -> Value {
    let all = subresources.as_array().into_iter().flatten();
    let used = all.filter(|below| {
        ["scale", "status"]
            .iter()
            .any(|used| below["subresource"] == *used)
    });
    let mut used: Vec<Value> = used.cloned().collect();
    for below in &mut used {
        if let Some(below) = below.as_object_mut() {
            below.remove("acceptedTypes");
        }
    }
    used.sort_by_key(|below| below["subresource"].to_string());
    json!(used)
}

pub(super) async fn what_is_not_there(stage: Stage) -> Result<Value> {
    let mut seen = Vec::new();
    for path in [
        "/apis/no.such.group",
        "/apis/no.such.group/v1",
        "/apis/apps/v9",
        "/api/v9",
    ] {
        seen.push(stage.admin.get(path).await?.status);
    }
    Ok(json!(seen))
}
