//! The metadata of an object: what the server decides, and what it makes of what others write.

use serde_json::{Map, Value};

use super::state::State;
use crate::clock::seconds;
use crate::kind::Kind;
use crate::refusal::{Reason, Refusal};

/// Longest name of an object.
const LONGEST_NAME: usize = 253;

/// What only the server writes.
const OWN: [&str; 8] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Fields that are left out when there is nothing in them.
const OMITTED: [&str; 5] = [
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
];

pub(super) type Object = Map<String, Value>;

/// A text of the metadata; empty if there is none.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    let metadata = object.get("metadata");
    let found = metadata.and_then(|metadata| metadata.get(field)?.as_str());
    found.unwrap_or_default()
}

/// The metadata, empty if there was none.
pub(super) fn of(object: &mut Object) -> Result<&mut Object, Refusal> {
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let found = metadata.as_object_mut();
    found.ok_or_else(|| Refusal::bad_request("metadata has to be an object"))
}

/// The metadata of an object that is being created.
pub(super) fn create(
    state: &mut State,
    kind: &Kind,
    namespace: &str,
    object: &mut Object,
) -> Result<(), Refusal> {
    if !text(object, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::new(Reason::Unknown, message));
    }
    same_namespace(namespace, object)?;
    if text(object, "name").is_empty() {
        let prefix = text(object, "generateName").to_owned();
        if prefix.is_empty() {
            let why = "Required value: name or generateName is required";
            let cause = "FieldValueRequired";
            return Err(Refusal::invalid(kind, "", "metadata.name", cause, why));
        }
        let name = state.dice.name(&prefix);
        of(object)?.insert("name".into(), name.into());
    }
    check_name(kind, text(object, "name"))?;
    let (uid, now) = (state.dice.uid().written(), seconds(state.clock.now()));
    let metadata = of(object)?;
    clean(metadata);
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
    if kind.counts_generations {
        metadata.insert("generation".into(), 1.into());
    }
    Ok(())
}

/// The metadata of an object that is being written over `present`.
pub(super) fn update(present: &Object, object: &mut Object) -> Result<(), Refusal> {
    let metadata = of(object)?;
    clean(metadata);
    for field in OWN {
        match present
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
        {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    Ok(())
}

/// The object must be of the namespace that the request names.
pub(super) fn same_namespace(namespace: &str, object: &Object) -> Result<(), Refusal> {
    let said = text(object, "namespace");
    if said.is_empty() || said == namespace {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the \
                   request";
    Err(Refusal::bad_request(message))
}

/// One more generation.
pub(super) fn count_generation(object: &mut Object) -> Result<(), Refusal> {
    let metadata = of(object)?;
    let generation = metadata.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    Ok(())
}

/// What somebody has to finish before the object may go.
fn finalizers(object: &Object) -> &[Value] {
    let metadata = object.get("metadata");
    let finalizers = metadata.and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.map(Vec::as_slice).unwrap_or_default()
}

/// Nobody else may hold up what is about to go.
pub(super) fn check_finalizers(
    kind: &Kind,
    present: &Object,
    object: &Object,
) -> Result<(), Refusal> {
    let is_leaving = !text(present, "deletionTimestamp").is_empty();
    let new: Vec<String> = finalizers(object)
        .iter()
        .filter(|finalizer| !finalizers(present).contains(finalizer))
        .map(ToString::to_string)
        .collect();
    if !is_leaving || new.is_empty() {
        return Ok(());
    }
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{{{}}}",
        new.join(", ")
    );
    let (field, cause) = ("metadata.finalizers", "FieldValueForbidden");
    let name = text(present, "name");
    Err(Refusal::invalid(kind, name, field, cause, &why))
}

/// Whether somebody has to finish something before the object may go.
pub(super) fn has_finalizers(object: &Object) -> bool {
    !finalizers(object).is_empty()
}

fn clean(metadata: &mut Object) {
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

/// The letters of a DNS subdomain; `RBAC`'s names are freer.
fn check_name(kind: &Kind, name: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let ends_well = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let is_free = kind.resource.group() == "rbac.authorization.k8s.io";
    let is_good = name.len() <= LONGEST_NAME && ends_well && name.chars().all(is_plain);
    if is_good || is_free && !name.contains(['/', '%']) {
        return Ok(());
    }
    let why = format!(
        "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case \
         alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
         character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    );
    Err(Refusal::invalid(
        kind,
        name,
        "metadata.name",
        "FieldValueInvalid",
        &why,
    ))
}
