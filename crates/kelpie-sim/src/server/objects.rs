//! Requests for a single object, and deletions of collections.

use kelpie_core::prober::guard::GUARD_NAME;
use serde_json::{Value, json};

use super::format::ResponseFormat;
use super::response::ServerResponse;
use super::route::ResourcePath;
use super::{
    InjectedAction, ServerRequest, ServerResult, SimServer, events, method_not_allowed, parse_json,
    parse_object, table,
};
use crate::admission;
use crate::field_types;
use crate::kind::ResourceKind;
use crate::patch::{PatchType, prune};
use crate::resource::{GroupResource, LEASES, POLICIES};
use crate::status_error::{StatusError, StatusReason};
use crate::store::body::{object_key, split_key};
use crate::store::{
    DeleteOptions, DeleteOutcome, ListOptions, ObjectStore, StoredObject, WriteScope,
};
use crate::wire;

impl SimServer {
    pub(super) fn objects(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        if path.subresource == "scale" {
            return self.scale(request, path);
        }
        match request.info.verb {
            "list" => self.list(request, path),
            "watch" => self.watch(request, path),
            "get" => self.get(request, path),
            "create" if path.name.is_empty() => self.create(request, path),
            "update" if !path.name.is_empty() => self.update(request, path),
            "patch" if !path.name.is_empty() => self.patch(request, path),
            "delete" if path.subresource.is_empty() => self.delete(request, path),
            "deletecollection" if path.kind.verbs().contains(&"deletecollection") => {
                self.delete_collection(request, path)
            }
            _ => Err(method_not_allowed()),
        }
    }

    /// Returns the store that reads are served from.
    pub(super) fn read_store<'a>(&'a self, request: &'a ServerRequest) -> &'a ObjectStore {
        match &request.injection.action {
            InjectedAction::ServeStale(store) => store,
            _ => &self.store,
        }
    }

    fn get(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let store = self.read_store(request).lock();
        let stored = store.get(&path.kind, &path.namespace, &path.name)?;
        drop(store);
        object_response(request, &path.kind, 200, &stored)
    }

    fn create(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let (kind, dry_run) = (&path.kind, is_dry_run(request));
        // An object cannot be created in all namespaces.
        if kind.is_namespaced && path.namespace.is_empty() {
            return Err(method_not_allowed());
        }
        let object = read_object(request, kind)?;
        check_admission(kind, &object)?;
        let mut state = self.store.lock();
        let stored = state.create(kind, &path.namespace, object, dry_run)?;
        drop(state);
        object_response(request, kind, 201, &stored)
    }

    fn update(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let (kind, dry_run, scope) = (&path.kind, is_dry_run(request), scope(path));
        let object = read_object(request, kind)?;
        check_admission(kind, &object)?;
        let mut state = self.store.lock();
        let exists = state.get(kind, &path.namespace, &path.name).is_ok();
        if !exists && kind.allows_create_on_update && scope == WriteScope::Object {
            check_name(path, &object)?;
            let mut object = object;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let stored = state.create(kind, &path.namespace, object, dry_run)?;
            drop(state);
            return object_response(request, kind, 201, &stored);
        }
        let (namespace, name) = (&path.namespace, &path.name);
        let stored = state.update(kind, namespace, name, scope, dry_run, |_| Ok(object))?;
        drop(state);
        object_response(request, kind, 200, &stored)
    }

    fn patch(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let patch_type = patch_type(request, &path.kind)?;
        let patch = parse_json(&request.body)?;
        let (kind, dry_run) = (&path.kind, is_dry_run(request));
        let (namespace, name) = (&path.namespace, &path.name);
        let is_new = self.store.lock().get(kind, namespace, name).is_err();
        let is_guard_lease = kind.resource == LEASES
            && (namespace.as_str(), name.as_str()) == ("kube-system", GUARD_NAME);
        if dry_run && is_guard_lease && !is_new {
            admission::check_dry_run(&self.store)?;
        }
        let mut state = self.store.lock();
        let manager = request.query.get("fieldManager");
        if patch_type == PatchType::Apply && manager.is_empty() {
            return Err(missing_field_manager());
        }
        // A manager's applied status is independent of what it applies to the rest of the object.
        let manager_key = format!("{manager}/{}", path.subresource);
        let key = object_key(namespace, name);
        let stored = if is_new && patch_type == PatchType::Apply && path.subresource.is_empty() {
            let mut object = json!({});
            patch_type.apply(&mut object, &patch)?;
            check_field_types(patch_type, kind, &object)?;
            check_name(path, &object)?;
            state.create(kind, namespace, object, dry_run)?
        } else {
            let last = state.last_applied(kind, &key, &manager_key);
            let is_new_events = kind.resource != kind.storage;
            state.update(kind, namespace, name, scope(path), dry_run, |mut object| {
                if is_new_events {
                    events::to_events_group(&mut object);
                }
                if patch_type == PatchType::Apply {
                    prune(&mut object, &last, &patch);
                }
                patch_type.apply(&mut object, &patch)?;
                check_field_types(patch_type, kind, &object)?;
                check_admission(kind, &object)?;
                if is_new_events && object.is_object() {
                    events::to_core_group(&mut object);
                }
                Ok(object)
            })?
        };
        if patch_type == PatchType::Apply && !dry_run {
            state.set_last_applied(kind, &key, &manager_key, patch);
        }
        drop(state);
        object_response(request, kind, if is_new { 201 } else { 200 }, &stored)
    }

    fn delete(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let (kind, options) = (&path.kind, delete_options(request)?);
        let mut state = self.store.lock();
        let (namespace, name) = (&path.namespace, &path.name);
        let deleted = state.delete(kind, namespace, name, &options, is_dry_run(request))?;
        drop(state);
        match deleted {
            DeleteOutcome::Removed(stored) if !kind.returns_deleted_object => {
                let uid = stored.to_value(kind)["metadata"]["uid"].clone();
                Ok(ServerResponse::json(200, &success_status(kind, name, &uid)))
            }
            DeleteOutcome::Removed(stored) | DeleteOutcome::Marked(stored) => {
                object_response(request, kind, 200, &stored)
            }
        }
    }

    fn delete_collection(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let (kind, options, dry_run) = (&path.kind, delete_options(request)?, is_dry_run(request));
        let selector = super::lists::selector(request, path)?;
        let mut state = self.store.lock();
        let mut page = state.list(kind, &selector, &ListOptions::default())?;
        for stored in &mut page.objects {
            let (namespace, name) = split_key(&stored.key);
            let deleted = state.delete(kind, namespace, name, &options, dry_run)?;
            let (DeleteOutcome::Removed(after) | DeleteOutcome::Marked(after)) = deleted;
            *stored = after;
        }
        page.version = state.version;
        drop(state);
        super::lists::list_response(request, kind, &page)
    }
}

/// Checks that an object created by an update or apply has the name in the URL.
fn check_name(path: &ResourcePath, object: &Value) -> Result<(), StatusError> {
    let given = object["metadata"]["name"].as_str().unwrap_or_default();
    if given == path.name {
        return Ok(());
    }
    Err(StatusError::other_name(given, &path.name))
}

/// Checks the field types of an object after a patch.
fn check_field_types(
    patch_type: PatchType,
    kind: &ResourceKind,
    object: &Value,
) -> Result<(), StatusError> {
    match field_types::type_error(kind, object) {
        None => Ok(()),
        // The API server returns this error without a reason.
        Some(why) if patch_type == PatchType::Apply => {
            let message = format!("failed to create typed patch object: {why}");
            Err(StatusError::new(StatusReason::Unknown, message))
        }
        Some(why) => Err(StatusError::undecodable(&why)),
    }
}

fn missing_field_manager() -> StatusError {
    let options = GroupResource::new("meta.k8s.io", "PatchOptions");
    let why = "Required value: is required for apply patch";
    StatusError::invalid_as(&options, "", "fieldManager", "FieldValueRequired", why)
}

/// Encodes one object in the format that the client accepts.
pub(super) fn object_response(
    request: &ServerRequest,
    kind: &ResourceKind,
    code: u16,
    stored: &StoredObject,
) -> ServerResult {
    let format = ResponseFormat::negotiate(&request.head.headers, kind)?;
    Ok(match format {
        ResponseFormat::Json => ServerResponse::json_text(code, object_json(kind, stored)),
        ResponseFormat::Protobuf => {
            ServerResponse::new(code, wire::PROTOBUF, wire::encode(kind, stored))
        }
        ResponseFormat::Table => {
            let metadata = json!({ "resourceVersion": stored.revision.version.to_string() });
            let (objects, now) = ([stored.to_value(kind)], request.info.received_at);
            ServerResponse::json(code, &table::table(kind, &objects, &metadata, now))
        }
        ResponseFormat::Metadata => {
            ServerResponse::json(code, &partial_metadata(&stored.to_value(kind)))
        }
    })
}

/// Returns the JSON of an object, with the field names of the requested group.
pub(super) fn object_json(kind: &ResourceKind, stored: &StoredObject) -> String {
    if kind.resource == kind.storage {
        return stored.to_json(kind);
    }
    let mut event = stored.to_value(kind);
    events::to_events_group(&mut event);
    event.to_string()
}

pub(super) fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

fn check_admission(kind: &ResourceKind, object: &Value) -> Result<(), StatusError> {
    if kind.resource == POLICIES {
        admission::check_policy(object)?;
    }
    Ok(())
}

fn scope(path: &ResourcePath) -> WriteScope {
    match path.subresource.as_str() {
        "status" => WriteScope::Status,
        _ => WriteScope::Object,
    }
}

pub(super) fn is_dry_run(request: &ServerRequest) -> bool {
    request.query.get("dryRun") == "All"
}

/// Reads the object of a request, which must have the kind of the requested resource.
fn read_object(request: &ServerRequest, kind: &ResourceKind) -> Result<Value, StatusError> {
    let mut object = decode_body(request, wire::kind_fields(kind))?;
    let given = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (given_kind, given_version) = (given("kind"), given("apiVersion"));
    let is_kind = given_kind.is_empty() || given_kind == kind.name;
    let is_version = given_version.is_empty() || given_version == kind.api_version();
    if !is_kind || !is_version {
        let message = format!(
            "{given_kind} in version \"{given_version}\" cannot be handled as a {}: converting \
             ({given_version}.{given_kind}) to ({}.{}): unknown conversion",
            kind.name,
            kind.api_version(),
            kind.name
        );
        return Err(StatusError::bad_request(message));
    }
    if let Some(why) = field_types::type_error(kind, &object) {
        return Err(StatusError::bad_request(why));
    }
    if kind.resource != kind.storage {
        events::to_core_group(&mut object);
    }
    Ok(object)
}

/// Decodes a request's body. `fields` describes its protobuf message, if protobuf is accepted.
pub(super) fn decode_body(
    request: &ServerRequest,
    fields: Option<wire::Fields>,
) -> Result<Value, StatusError> {
    match (content_type(request).as_str(), fields) {
        ("" | "application/json" | "*/*", _) => parse_object(&request.body),
        (wire::PROTOBUF, Some(fields)) => {
            let message = "the object provided is unrecognized (must be of type protobuf, and all \
                           of its fields known here: send JSON)";
            wire::decode(fields, &request.body).ok_or_else(|| StatusError::bad_request(message))
        }
        _ => {
            let message = "the body of the request was in an unknown format - accepted media \
                           types include: application/json";
            let reason = StatusReason::UnsupportedMediaType;
            Err(StatusError::new(reason, message))
        }
    }
}

/// Returns the patch format of a request.
pub(super) fn patch_type(
    request: &ServerRequest,
    kind: &ResourceKind,
) -> Result<PatchType, StatusError> {
    let found = PatchType::from_content_type(&content_type(request));
    // The merge keys of lists are only known for built-in kinds.
    let found = found.filter(|patch| !(kind.is_custom && *patch == PatchType::Strategic));
    found.ok_or_else(|| {
        let message = "415: Unsupported Media Type";
        StatusError::with_details(StatusReason::UnsupportedMediaType, message, &json!({}))
    })
}

fn content_type(request: &ServerRequest) -> String {
    let found = request.head.headers.get(http::header::CONTENT_TYPE);
    let found = found.and_then(|value| value.to_str().ok()?.split(';').next());
    found.unwrap_or_default().trim().to_owned()
}

/// Reads the options of a deletion from the body, or from the query.
fn delete_options(request: &ServerRequest) -> Result<DeleteOptions, StatusError> {
    let body = if request.body.is_empty() {
        Value::Null
    } else {
        parse_object(&request.body)?
    };
    let text = |field: &str| Some(body["preconditions"][field].as_str()?.to_owned());
    let grace = body["gracePeriodSeconds"].as_u64();
    Ok(DeleteOptions {
        grace_period_seconds: grace.or_else(|| request.query.integer("gracePeriodSeconds")),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    })
}

fn success_status(kind: &ResourceKind, name: &str, uid: &Value) -> Value {
    let mut details = json!({ "name": name, "kind": kind.resource.plural(), "uid": uid });
    if !kind.resource.group().is_empty() {
        details["group"] = kind.resource.group().into();
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
