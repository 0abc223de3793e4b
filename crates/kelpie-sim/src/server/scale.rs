//! The `scale` subresource.

use serde_json::{Value, json};

use super::objects::{is_dry_run, patch_type};
use super::response::ServerResponse;
use super::route::ResourcePath;
use super::{ServerRequest, ServerResult, SimServer, method_not_allowed, parse_json};
use crate::field;
use crate::kind::{ResourceKind, ScalePaths};
use crate::patch::PatchType;
use crate::status_error::StatusError;
use crate::store::WriteScope;

impl SimServer {
    pub(super) fn scale(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let Some(scale) = &path.kind.scale else {
            return Err(method_not_allowed());
        };
        match request.info.verb {
            "get" => {
                let state = self.read_store(request).lock();
                let stored = state.get(&path.kind, &path.namespace, &path.name)?;
                drop(state);
                let object = stored.to_value(&path.kind);
                Ok(ServerResponse::json(
                    200,
                    &scale_json(&path.kind, scale, &object),
                ))
            }
            "update" => {
                let scale_object = parse_json(&request.body)?;
                self.set_scale(request, path, scale, |_| Ok(scale_object))
            }
            "patch" => {
                let patch_type = match patch_type(request, &path.kind)? {
                    PatchType::Apply => PatchType::Merge,
                    other => other,
                };
                let patch = parse_json(&request.body)?;
                self.set_scale(request, path, scale, |mut current| {
                    patch_type.apply(&mut current, &patch)?;
                    Ok(current)
                })
            }
            _ => Err(method_not_allowed()),
        }
    }

    fn set_scale(
        &self,
        request: &ServerRequest,
        path: &ResourcePath,
        scale: &ScalePaths,
        change: impl FnOnce(Value) -> Result<Value, StatusError>,
    ) -> ServerResult {
        let kind = &path.kind;
        let (namespace, name) = (&path.namespace, &path.name);
        let set_count = |mut object: Value| {
            let scale_object = change(scale_json(kind, scale, &object))?;
            let count = match &scale_object["spec"]["replicas"] {
                // A replica count of zero may be omitted.
                Value::Null => 0,
                count => count.as_i64().ok_or_else(|| invalid_replicas(count))?,
            };
            if count < 0 {
                let field = "spec.replicas";
                return Err(StatusError::negative_replicas(kind, name, field, count));
            }
            field::set(&mut object, &scale.spec_replicas, count);
            let version = scale_object["metadata"]["resourceVersion"].as_str();
            if let Some(version) = version.filter(|version| !version.is_empty()) {
                field::set(&mut object, "/metadata/resourceVersion", version);
            }
            Ok(object)
        };
        let (scope, dry_run) = (WriteScope::Object, is_dry_run(request));
        let mut state = self.store.lock();
        let stored = state.update(kind, namespace, name, scope, dry_run, set_count)?;
        drop(state);
        let object = stored.to_value(kind);
        Ok(ServerResponse::json(200, &scale_json(kind, scale, &object)))
    }
}

/// Returns the Scale of an object.
fn scale_json(kind: &ResourceKind, scale: &ScalePaths, object: &Value) -> Value {
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = json!({});
    if count(&scale.spec_replicas) != 0 {
        spec["replicas"] = count(&scale.spec_replicas).into();
    }
    let mut status = json!({ "replicas": count(&scale.status_replicas) });
    let selector = match (&scale.label_selector, kind.is_custom) {
        (Some(pointer), _) => object
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned),
        (None, false) => Some(format_labels(&object["spec"]["selector"]["matchLabels"])),
        (None, true) => None,
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Formats labels as a selector string.
fn format_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    labels.collect::<Vec<_>>().join(",")
}

fn invalid_replicas(count: &Value) -> StatusError {
    StatusError::undecodable(&format!("{count}: json: cannot unmarshal it into a count"))
}
