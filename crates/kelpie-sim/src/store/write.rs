//! The rules for writes.

use std::time::Duration;

use serde_json::Value;

use super::body::{ObjectBody, ObjectKey, ObjectRevision, object_key};
use super::defaults;
use super::metadata::{self, Object};
use super::pruning::prune_object;
use super::state::{StoreState, StoredObject};
use crate::clock::rfc3339;
use crate::kind::{ResourceKind, StatusMode};
use crate::resource::{DEPLOYMENTS, NAMESPACES, PODS};
use crate::status_error::{StatusError, StatusReason};

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteScope {
    /// Everything except a status that is a subresource.
    Object,
    /// Nothing but the status.
    Status,
}

/// The options of a deletion, like `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The pod's grace period. `None` uses the pod's own.
    pub grace_period_seconds: Option<u64>,
    /// A precondition on the object's UID.
    pub uid: Option<String>,
    /// A precondition on the object's version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Deletes without a grace period. Finalizers still hold up the deletion.
    pub fn immediate() -> Self {
        Self {
            grace_period_seconds: Some(0),
            ..Self::default()
        }
    }
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    /// The object is removed. This is its last state.
    Removed(StoredObject),
    /// The object is marked, and is removed once its finalizers and grace period allow.
    Marked(StoredObject),
}

impl StoreState {
    pub(crate) fn create(
        &mut self,
        kind: &ResourceKind,
        namespace: &str,
        object: Value,
        dry_run: bool,
    ) -> Result<StoredObject, StatusError> {
        let mut object = into_object(object)?;
        metadata::prepare_create(self, kind, namespace, &mut object)?;
        let name = metadata::string_field(&object, "name").to_owned();
        let key = object_key(namespace, &name);
        if self.get(kind, namespace, &name).is_ok() {
            return Err(StatusError::already_exists(&kind.resource, &name));
        }
        self.check_namespace(kind, namespace, &name)?;
        if kind.status == StatusMode::Subresource {
            object.remove("status");
        }
        strip_unstored(kind, &mut object);
        defaults::apply_on_create(self, kind, &mut object);
        check_replicas(kind, &name, &object)?;
        Ok(self.save(kind, key, object, dry_run))
    }

    /// Replaces an object by the result of `change`.
    pub(crate) fn update(
        &mut self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        scope: WriteScope,
        dry_run: bool,
        change: impl FnOnce(Value) -> Result<Value, StatusError>,
    ) -> Result<StoredObject, StatusError> {
        let stored = self.get(kind, namespace, name)?;
        let current = stored.to_value(kind);
        let mut object = into_object(change(current.clone())?)?;
        let current = into_object(current)?;
        check_identity(kind, name, namespace, &current, &object)?;
        match scope {
            WriteScope::Object => {
                metadata::check_finalizers(kind, &current, &object)?;
                metadata::prepare_update(&current, &mut object)?;
                if kind.status != StatusMode::Field {
                    restore_field(&current, &mut object, "status");
                }
                strip_unstored(kind, &mut object);
                defaults::apply_on_write(kind, &mut object);
                check_replicas(kind, name, &object)?;
                if kind.tracks_generation && is_new_generation(kind, &current, &object) {
                    metadata::increment_generation(&mut object)?;
                }
            }
            WriteScope::Status => {
                let status = object.remove("status");
                object = current;
                object.remove("status");
                object.extend(status.map(|status| ("status".to_owned(), status)));
                strip_unstored(kind, &mut object);
            }
        }
        let is_terminating = !metadata::string_field(&object, "deletionTimestamp").is_empty();
        if is_terminating && !dry_run && is_ready_to_remove(&object) {
            self.put(kind, &stored.key, None);
            let body = ObjectBody::from_object(kind, object);
            let version = stored.revision.version;
            let revision = ObjectRevision { version, body };
            return Ok(StoredObject { revision, ..stored });
        }
        Ok(self.save(kind, stored.key, object, dry_run))
    }

    pub(crate) fn delete(
        &mut self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        dry_run: bool,
    ) -> Result<DeleteOutcome, StatusError> {
        let stored = self.get(kind, namespace, name)?;
        let mut object = into_object(stored.to_value(kind))?;
        check_preconditions(kind, name, &object, options)?;
        let grace = grace_period(kind, &object, options);
        let is_terminating = !metadata::string_field(&object, "deletionTimestamp").is_empty();
        let must_wait =
            grace > 0 || metadata::has_finalizers(&object) || kind.storage == NAMESPACES;
        if is_terminating && must_wait && !shortens_grace_period(&object, grace) {
            return Ok(DeleteOutcome::Marked(stored));
        }
        if must_wait || kind.storage == PODS {
            let at = self.clock.now().after(Duration::from_secs(grace));
            mark_deleted(kind, &mut object, &rfc3339(at), grace)?;
        }
        if must_wait {
            let marked = self.save(kind, stored.key, object, dry_run);
            return Ok(DeleteOutcome::Marked(marked));
        }
        let version = if dry_run {
            stored.revision.version
        } else {
            self.put(kind, &stored.key, None)
        };
        let body = ObjectBody::from_object(kind, object);
        let revision = ObjectRevision { version, body };
        Ok(DeleteOutcome::Removed(StoredObject { revision, ..stored }))
    }

    /// Writes an object. A dry run writes nothing and keeps the current version.
    fn save(
        &mut self,
        kind: &ResourceKind,
        key: ObjectKey,
        object: Object,
        dry_run: bool,
    ) -> StoredObject {
        let body = ObjectBody::from_object(kind, object);
        let version = if dry_run {
            let objects = &self.collection_mut(kind).objects;
            objects.get(&key).map_or(0, |current| current.version)
        } else {
            self.put(kind, &key, Some(body.clone()))
        };
        let revision = ObjectRevision { version, body };
        StoredObject { key, revision }
    }

    /// Checks that the namespace exists and is not being deleted.
    fn check_namespace(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
    ) -> Result<(), StatusError> {
        if !kind.is_namespaced {
            return Ok(());
        }
        let namespaces = self.kind(&NAMESPACES)?;
        let found = self.get(&namespaces, "", namespace)?.to_value(&namespaces);
        if found["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} \
             because it is being terminated",
            kind.resource
        );
        let reason = StatusReason::Forbidden;
        Err(StatusError::for_object(
            reason,
            message,
            &kind.resource,
            name,
        ))
    }
}

fn into_object(value: Value) -> Result<Object, StatusError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(StatusError::bad_request(
            "an object has to be a JSON object",
        )),
    }
}

/// Checks that an update has the name, namespace, UID and version of the object it replaces.
fn check_identity(
    kind: &ResourceKind,
    name: &str,
    namespace: &str,
    current: &Object,
    object: &Object,
) -> Result<(), StatusError> {
    let given = metadata::string_field(object, "name");
    if given != name {
        return Err(StatusError::other_name(given, name));
    }
    metadata::check_namespace(namespace, object)?;
    let [uid, current_uid] = [object, current].map(|of| metadata::string_field(of, "uid"));
    if !uid.is_empty() && uid != current_uid {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {current_uid}"
        );
        return Err(StatusError::conflict(&kind.resource, name, &why));
    }
    match metadata::string_field(object, "resourceVersion") {
        "" if kind.allows_unconditional_update => Ok(()),
        "" => {
            let why = "Invalid value: 0: must be specified for an update";
            let (resource, field) = (&kind.resource, "metadata.resourceVersion");
            Err(StatusError::invalid_as(
                resource,
                name,
                field,
                "FieldValueInvalid",
                why,
            ))
        }
        version if version == metadata::string_field(current, "resourceVersion") => Ok(()),
        _ => Err(StatusError::outdated(&kind.resource, name)),
    }
}

fn check_preconditions(
    kind: &ResourceKind,
    name: &str,
    object: &Object,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let conflict = |why: String| Err(StatusError::conflict(&kind.group_kind(), name, &why));
    let current = metadata::string_field(object, "uid");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({current}). The \
             object might have been deleted and then recreated"
        ));
    }
    let current = metadata::string_field(object, "resourceVersion");
    let version = options.resource_version.as_deref();
    if let Some(version) = version.filter(|version| *version != current) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({current}). The object might have been modified"
        ));
    }
    Ok(())
}

/// Sets the deletion timestamp, and the grace period or the namespace's phase.
fn mark_deleted(
    kind: &ResourceKind,
    object: &mut Object,
    at: &str,
    grace: u64,
) -> Result<(), StatusError> {
    if metadata::string_field(object, "deletionTimestamp").is_empty() {
        metadata::increment_generation(object)?;
    }
    let metadata = metadata::metadata_mut(object)?;
    metadata.insert("deletionTimestamp".into(), at.into());
    if kind.storage == NAMESPACES {
        let status = serde_json::json!({ "phase": "Terminating" });
        object.insert("status".into(), status);
    } else {
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    Ok(())
}

/// Rejects a negative replica count.
fn check_replicas(kind: &ResourceKind, name: &str, object: &Object) -> Result<(), StatusError> {
    let wanted = object.get("spec").and_then(|spec| spec.get("replicas"));
    match wanted.and_then(Value::as_i64) {
        Some(count) if count < 0 && kind.scale.is_some() && !kind.is_custom => Err(
            StatusError::negative_replicas(kind, name, "spec.replicas", count),
        ),
        _ => Ok(()),
    }
}

/// Resets a field to its current value.
fn restore_field(current: &Object, object: &mut Object, field: &str) {
    object.remove(field);
    if let Some(value) = current.get(field) {
        object.insert(field.into(), value.clone());
    }
}

/// Returns whether a write changes the spec.
fn is_new_generation(kind: &ResourceKind, before: &Object, after: &Object) -> bool {
    let is_spec_field = |field: &&String| {
        let is_status = *field == "status" && kind.status != StatusMode::Field;
        *field != "metadata" && !is_status
    };
    let fields = before.keys().chain(after.keys()).filter(is_spec_field);
    let mut fields = fields.map(String::as_str);
    let annotations = |object: &Object| {
        let metadata = object.get("metadata");
        metadata.and_then(|metadata| metadata.get("annotations").cloned())
    };
    // The generation of a Deployment counts changes of annotations too.
    let annotated = kind.storage == DEPLOYMENTS && annotations(before) != annotations(after);
    annotated || fields.any(|field| before.get(field) != after.get(field))
}

/// Returns whether an object that is marked as deleted can be removed.
fn is_ready_to_remove(object: &Object) -> bool {
    let metadata = object.get("metadata");
    let grace = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_u64());
    !metadata::has_finalizers(object) && grace == Some(0)
}

/// Returns the grace period of a deletion, in seconds.
fn grace_period(kind: &ResourceKind, object: &Object, options: &DeleteOptions) -> u64 {
    let at = |path: &str| {
        let (first, rest) = path.split_once('/')?;
        object.get(first)?.get(rest)
    };
    let phase = at("status/phase").and_then(Value::as_str);
    let is_running = !["Succeeded", "Failed"].contains(&phase.unwrap_or_default());
    // There is no kubelet that has to stop the pod.
    if kind.storage != PODS || at("spec/nodeName").is_none() || !is_running {
        return 0;
    }
    let own = at("spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
    options.grace_period_seconds.or(own).unwrap_or(30)
}

/// Returns whether another deletion shortens the remaining grace period.
fn shortens_grace_period(object: &Object, grace: u64) -> bool {
    let metadata = object.get("metadata");
    let left = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_u64());
    left.is_some_and(|left| grace < left)
}

/// Removes what the server does not store: null fields of built-in kinds, whose fields it knows,
/// and fields that are not in the schema of a custom kind.
fn strip_unstored(kind: &ResourceKind, object: &mut Object) {
    if let Some(schema) = &kind.schema {
        prune_object(object, schema);
    } else if !kind.is_custom {
        object.values_mut().for_each(strip_value);
        object.retain(|_, value| !value.is_null());
    }
}

fn strip_value(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(strip_value);
            map.retain(|_, value| !value.is_null());
        }
        Value::Array(list) => list.iter_mut().for_each(strip_value),
        _ => {}
    }
}
