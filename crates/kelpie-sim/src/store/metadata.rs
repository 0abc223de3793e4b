//! The rules for object metadata.

use serde_json::{Map, Value};

use super::state::StoreState;
use crate::clock::rfc3339;
use crate::kind::ResourceKind;
use crate::status_error::{StatusError, StatusReason};

/// The longest valid object name, in bytes.
const MAX_NAME_LENGTH: usize = 253;

/// The fields that only the API server sets.
const SERVER_FIELDS: [&str; 8] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The fields that are omitted when empty.
const OMITTED: [&str; 5] = [
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
];

pub(super) type Object = Map<String, Value>;

/// Returns a string field of the metadata; empty if absent.
pub(super) fn string_field<'a>(object: &'a Object, field: &str) -> &'a str {
    let metadata = object.get("metadata");
    let found = metadata.and_then(|metadata| metadata.get(field)?.as_str());
    found.unwrap_or_default()
}

/// Returns the metadata, and creates it if absent.
pub(super) fn metadata_mut(object: &mut Object) -> Result<&mut Object, StatusError> {
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let found = metadata.as_object_mut();
    found.ok_or_else(|| StatusError::bad_request("metadata has to be an object"))
}

/// Validates and completes the metadata of a new object.
pub(super) fn prepare_create(
    state: &mut StoreState,
    kind: &ResourceKind,
    namespace: &str,
    object: &mut Object,
) -> Result<(), StatusError> {
    if !string_field(object, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(StatusError::new(StatusReason::Unknown, message));
    }
    check_namespace(namespace, object)?;
    if string_field(object, "name").is_empty() {
        let prefix = string_field(object, "generateName").to_owned();
        if prefix.is_empty() {
            let why = "Required value: name or generateName is required";
            let cause = "FieldValueRequired";
            return Err(StatusError::invalid(kind, "", "metadata.name", cause, why));
        }
        let name = state.ids.name(&prefix);
        metadata_mut(object)?.insert("name".into(), name.into());
    }
    check_name(kind, string_field(object, "name"))?;
    let (uid, now) = (state.ids.uid().hyphenated(), rfc3339(state.clock.now()));
    let metadata = metadata_mut(object)?;
    remove_empty(metadata);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ] {
        metadata.remove(field);
    }
    if !namespace.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    }
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    if kind.tracks_generation {
        metadata.insert("generation".into(), 1.into());
    }
    Ok(())
}

/// Keeps the server's fields of `current` in an object that replaces it.
pub(super) fn prepare_update(current: &Object, object: &mut Object) -> Result<(), StatusError> {
    let metadata = metadata_mut(object)?;
    remove_empty(metadata);
    let current = current.get("metadata");
    for field in SERVER_FIELDS {
        match current.and_then(|current| current.get(field)) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    Ok(())
}

/// Checks that the object belongs to the namespace of the request.
pub(super) fn check_namespace(namespace: &str, object: &Object) -> Result<(), StatusError> {
    let given = string_field(object, "namespace");
    if given.is_empty() || given == namespace {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the \
                   request";
    Err(StatusError::bad_request(message))
}

/// Increments `metadata.generation`, if the kind has one.
pub(super) fn increment_generation(object: &mut Object) -> Result<(), StatusError> {
    let metadata = metadata_mut(object)?;
    let generation = metadata.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    Ok(())
}

/// Returns the finalizers that hold up the object's deletion.
fn finalizers(object: &Object) -> &[Value] {
    let metadata = object.get("metadata");
    let finalizers = metadata.and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.map(Vec::as_slice).unwrap_or_default()
}

/// Rejects new finalizers on an object that is being deleted.
pub(super) fn check_finalizers(
    kind: &ResourceKind,
    current: &Object,
    object: &Object,
) -> Result<(), StatusError> {
    let is_terminating = !string_field(current, "deletionTimestamp").is_empty();
    let new: Vec<String> = finalizers(object)
        .iter()
        .filter(|finalizer| !finalizers(current).contains(finalizer))
        .map(ToString::to_string)
        .collect();
    if !is_terminating || new.is_empty() {
        return Ok(());
    }
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{{{}}}",
        new.join(", ")
    );
    let (field, cause) = ("metadata.finalizers", "FieldValueForbidden");
    let name = string_field(current, "name");
    Err(StatusError::invalid(kind, name, field, cause, &why))
}

/// Returns whether finalizers hold up the object's deletion.
pub(super) fn has_finalizers(object: &Object) -> bool {
    !finalizers(object).is_empty()
}

fn remove_empty(metadata: &mut Object) {
    metadata.remove("managedFields");
    metadata.retain(|field, value| {
        let is_empty = match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        !(value.is_null() || is_empty && OMITTED.contains(&field.as_str()))
    });
}

/// Checks for a DNS subdomain. RBAC allows more names.
fn check_name(kind: &ResourceKind, name: &str) -> Result<(), StatusError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let has_valid_ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let is_rbac = kind.resource.group() == "rbac.authorization.k8s.io";
    let is_valid = name.len() <= MAX_NAME_LENGTH && has_valid_ends && name.chars().all(is_allowed);
    if is_valid || is_rbac && !name.contains(['/', '%']) {
        return Ok(());
    }
    let why = format!(
        "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case \
         alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
         character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    );
    let (field, cause) = ("metadata.name", "FieldValueInvalid");
    Err(StatusError::invalid(kind, name, field, cause, &why))
}
