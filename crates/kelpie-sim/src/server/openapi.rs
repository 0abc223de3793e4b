//! The `OpenAPI` document, reduced to what kubectl reads before it sends an object: that the server
//! supports field validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::response::ServerResponse;
use super::{SimServer, VERSION};
use crate::kind::ResourceKind;

const ROOT: &str = "/openapi/v3";

impl SimServer {
    /// Returns the response for a path below `/openapi/v3`, or `None` for other paths.
    pub(super) fn openapi(&self, path: &str) -> Option<ServerResponse> {
        let rest = path.strip_prefix(ROOT)?.trim_matches('/');
        let mut versions: BTreeMap<String, Vec<Arc<ResourceKind>>> = BTreeMap::new();
        for kind in self.store.lock().kinds().values() {
            versions
                .entry(group_version_path(kind))
                .or_default()
                .push(Arc::clone(kind));
        }
        if rest.is_empty() {
            let paths = versions.keys().map(|version| {
                let url = format!("{ROOT}/{version}");
                (version.clone(), json!({ "serverRelativeURL": url }))
            });
            let paths: Map<String, Value> = paths.collect();
            return Some(ServerResponse::json(200, &json!({ "paths": paths })));
        }
        let kinds = versions.get(rest)?;
        let paths = kinds
            .iter()
            .map(|kind| (object_path(kind), json!({ "patch": patch_operation(kind) })));
        let paths: Map<String, Value> = paths.collect();
        let schemas = kinds.iter().map(|kind| (schema_name(kind), schema(kind)));
        let schemas: Map<String, Value> = schemas.collect();
        let document = json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": VERSION.2 },
            "paths": paths,
            "components": { "schemas": schemas },
        });
        Some(ServerResponse::json(200, &document))
    }
}

/// Returns `api/v1` or `apis/apps/v1`.
fn group_version_path(kind: &ResourceKind) -> String {
    let begin = if kind.resource.group().is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("{begin}/{}", kind.api_version())
}

fn object_path(kind: &ResourceKind) -> String {
    let namespace = if kind.is_namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!(
        "/{}{namespace}/{}/{{name}}",
        group_version_path(kind),
        kind.resource.plural()
    )
}

fn schema_name(kind: &ResourceKind) -> String {
    format!("{}.{}", kind.api_version().replace('/', "."), kind.name)
}

/// Returns a schema that only states that the kind exists.
fn schema(kind: &ResourceKind) -> Value {
    json!({
        "type": "object",
        "description": "A simulated API server stores it as it is sent. Its fields are those of a \
                        real API server, which explains them.",
        "x-kubernetes-group-version-kind": [group_version_kind(kind)],
    })
}

fn group_version_kind(kind: &ResourceKind) -> Value {
    json!({
        "group": kind.resource.group(),
        "version": kind.version,
        "kind": kind.name,
    })
}

fn patch_operation(kind: &ResourceKind) -> Value {
    json!({
        "parameters": [{
            "name": "fieldValidation",
            "in": "query",
            "schema": { "type": "string", "uniqueItems": true },
        }],
        "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": group_version_kind(kind),
    })
}
