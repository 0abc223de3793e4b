//! The description of the API: as much as kubectl wants to know before it sends an object, which is that
//! the server itself will look at the object's fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::{Server, VERSION};
use crate::kind::Kind;

const ROOT: &str = "/openapi/v3";

impl Server {
    /// What stands at a path of the description; nothing if it is another path.
    pub(super) fn description(&self, path: &str) -> Option<Answer> {
        let rest = path.strip_prefix(ROOT)?.trim_matches('/');
        let mut versions: BTreeMap<String, Vec<Arc<Kind>>> = BTreeMap::new();
        for kind in self.store.lock().kinds().values() {
            versions
                .entry(root(kind))
                .or_default()
                .push(Arc::clone(kind));
        }
        if rest.is_empty() {
            let paths = versions.keys().map(|version| {
                let url = format!("{ROOT}/{version}");
                (version.clone(), json!({ "serverRelativeURL": url }))
            });
            let paths: Map<String, Value> = paths.collect();
            return Some(Answer::json(200, &json!({ "paths": paths })));
        }
        let kinds = versions.get(rest)?;
        let paths = kinds
            .iter()
            .map(|kind| (address(kind), json!({ "patch": patch(kind) })));
        let paths: Map<String, Value> = paths.collect();
        let schemas = kinds.iter().map(|kind| (schema_name(kind), schema(kind)));
        let schemas: Map<String, Value> = schemas.collect();
        let document = json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": VERSION.2 },
            "paths": paths,
            "components": { "schemas": schemas },
        });
        Some(Answer::json(200, &document))
    }
}

/// `api/v1`, `apis/apps/v1`.
fn root(kind: &Kind) -> String {
    let begin = if kind.resource.group().is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("{begin}/{}", kind.api_version())
}

fn address(kind: &Kind) -> String {
    let namespace = if kind.is_namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!(
        "/{}{namespace}/{}/{{name}}",
        root(kind),
        kind.resource.plural()
    )
}

fn schema_name(kind: &Kind) -> String {
    format!("{}.{}", kind.api_version().replace('/', "."), kind.name)
}

/// All that there is to explain: that the kind is here.
fn schema(kind: &Kind) -> Value {
    json!({
        "type": "object",
        "description": "A simulated API server keeps it as it is written; its fields are those of a \
                        real one, and are explained there.",
        "x-kubernetes-group-version-kind": [known_as(kind)],
    })
}

fn known_as(kind: &Kind) -> Value {
    json!({
        "group": kind.resource.group(),
        "version": kind.version,
        "kind": kind.name,
    })
}

fn patch(kind: &Kind) -> Value {
    json!({
        "parameters": [{
            "name": "fieldValidation",
            "in": "query",
            "schema": { "type": "string", "uniqueItems": true },
        }],
        "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": known_as(kind),
    })
}
