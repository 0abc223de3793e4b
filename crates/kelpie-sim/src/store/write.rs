//! The rules of writes.

use std::time::Duration;

use serde_json::Value;

use super::body::{Body, Key, Stored, key};
use super::metadata::{self, Object};
use super::preset;
use super::state::{Kept, State};
use crate::clock::seconds;
use crate::kind::{Kind, Status};
use crate::refusal::{Reason, Refusal};
use crate::resource::{DEPLOYMENTS, NAMESPACES, PODS};

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, where that is apart.
    Object,
    /// The status alone.
    Status,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// How long a pod may take; by default as long as it says itself.
    pub grace: Option<u64>,
    /// Only the object of this uid.
    pub uid: Option<String>,
    /// Only at this version.
    pub version: Option<String>,
}

impl Deletion {
    /// Without waiting for anybody but finalizers.
    pub fn now() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }
}

/// What a deletion came to.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone; this is what it was.
    Gone(Kept),
    /// It is marked, and goes when others have done their part.
    Marked(Kept),
}

impl State {
    pub(crate) fn create(
        &mut self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        is_dry: bool,
    ) -> Result<Kept, Refusal> {
        let mut object = into_object(object)?;
        metadata::create(self, kind, namespace, &mut object)?;
        let name = metadata::text(&object, "name").to_owned();
        let key = key(namespace, &name);
        if self.get(kind, namespace, &name).is_ok() {
            return Err(Refusal::already_exists(&kind.resource, &name));
        }
        self.check_namespace(kind, namespace, &name)?;
        if kind.status == Status::Separate {
            object.remove("status");
        }
        strip_nulls(kind, &mut object);
        preset::created(self, kind, &mut object);
        check_replicas(kind, &name, &object)?;
        Ok(self.keep(kind, key, object, is_dry))
    }

    /// Replaces an object by what `change` makes of it.
    pub(crate) fn update(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: Part,
        is_dry: bool,
        change: impl FnOnce(Value) -> Result<Value, Refusal>,
    ) -> Result<Kept, Refusal> {
        let kept = self.get(kind, namespace, name)?;
        let present = kept.value(kind);
        let mut object = into_object(change(present.clone())?)?;
        let present = into_object(present)?;
        check_identity(kind, name, namespace, &present, &object)?;
        match part {
            Part::Object => {
                metadata::check_finalizers(kind, &present, &object)?;
                metadata::update(&present, &mut object)?;
                if kind.status != Status::Plain {
                    restore(&present, &mut object, "status");
                }
                strip_nulls(kind, &mut object);
                preset::completed(kind, &mut object);
                check_replicas(kind, name, &object)?;
                if kind.counts_generations && is_new_generation(kind, &present, &object) {
                    metadata::count_generation(&mut object)?;
                }
            }
            Part::Status => {
                let status = object.remove("status");
                object = present;
                object.remove("status");
                object.extend(status.map(|status| ("status".to_owned(), status)));
                strip_nulls(kind, &mut object);
            }
        }
        let is_leaving = !metadata::text(&object, "deletionTimestamp").is_empty();
        if is_leaving && !is_dry && is_done(&object) {
            self.put(kind, &kept.key, None);
            let body = Body::of(kind, object);
            let version = kept.stored.version;
            let stored = Stored { version, body };
            return Ok(Kept { stored, ..kept });
        }
        Ok(self.keep(kind, kept.key, object, is_dry))
    }

    pub(crate) fn delete(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        how: &Deletion,
        is_dry: bool,
    ) -> Result<Deleted, Refusal> {
        let kept = self.get(kind, namespace, name)?;
        let mut object = into_object(kept.value(kind))?;
        check_preconditions(kind, name, &object, how)?;
        let grace = grace(kind, &object, how);
        let is_leaving = !metadata::text(&object, "deletionTimestamp").is_empty();
        let waits = grace > 0 || metadata::has_finalizers(&object) || kind.shelf == NAMESPACES;
        if is_leaving && waits && !shortens(&object, grace) {
            return Ok(Deleted::Marked(kept));
        }
        if waits || kind.shelf == PODS {
            let at = self.clock.now().after(Duration::from_secs(grace));
            mark(kind, &mut object, &seconds(at), grace)?;
        }
        if waits {
            return Ok(Deleted::Marked(self.keep(kind, kept.key, object, is_dry)));
        }
        let version = if is_dry {
            kept.stored.version
        } else {
            self.put(kind, &kept.key, None)
        };
        let body = Body::of(kind, object);
        let stored = Stored { version, body };
        Ok(Deleted::Gone(Kept { stored, ..kept }))
    }

    /// Writes an object, unless it is only a trial: then it keeps the version of what is there.
    fn keep(&mut self, kind: &Kind, key: Key, object: Object, is_dry: bool) -> Kept {
        let body = Body::of(kind, object);
        let version = if is_dry {
            let shelf = self.shelf_of(kind).objects();
            shelf.get(&key).map_or(0, |present| present.version)
        } else {
            self.put(kind, &key, Some(body.clone()))
        };
        let stored = Stored { version, body };
        Kept { key, stored }
    }

    /// Nothing comes into a namespace that is not there, or about to go.
    fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Refusal> {
        if !kind.is_namespaced {
            return Ok(());
        }
        let namespaces = self.kind(&NAMESPACES)?;
        let found = self.get(&namespaces, "", namespace)?.value(&namespaces);
        if found["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} \
             because it is being terminated",
            kind.resource
        );
        Err(Refusal::about(
            Reason::Forbidden,
            message,
            &kind.resource,
            name,
        ))
    }
}

fn into_object(value: Value) -> Result<Object, Refusal> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Refusal::bad_request("an object has to be a JSON object")),
    }
}

/// An update must be about the object that the request names, and rest on its present version.
fn check_identity(
    kind: &Kind,
    name: &str,
    namespace: &str,
    present: &Object,
    object: &Object,
) -> Result<(), Refusal> {
    let said = metadata::text(object, "name");
    if said != name {
        let message =
            format!("the name of the object ({said}) does not match the name on the URL ({name})");
        return Err(Refusal::bad_request(message));
    }
    metadata::same_namespace(namespace, object)?;
    let (uid, own) = (
        metadata::text(object, "uid"),
        metadata::text(present, "uid"),
    );
    if !uid.is_empty() && uid != own {
        return Err(other_uid(kind, name, uid, own));
    }
    match metadata::text(object, "resourceVersion") {
        "" if kind.unconditional => Ok(()),
        "" => {
            let why = "Invalid value: 0: must be specified for an update";
            let (field, cause) = ("metadata.resourceVersion", "FieldValueInvalid");
            Err(Refusal::invalid_as(&kind.resource, name, field, cause, why))
        }
        version if version == metadata::text(present, "resourceVersion") => Ok(()),
        _ => Err(Refusal::outdated(&kind.resource, name)),
    }
}

fn check_preconditions(
    kind: &Kind,
    name: &str,
    object: &Object,
    how: &Deletion,
) -> Result<(), Refusal> {
    let conflict = |why: String| Err(Refusal::conflict(&kind.singular_resource(), name, &why));
    let own = metadata::text(object, "uid");
    if let Some(uid) = how.uid.as_deref().filter(|uid| *uid != own) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({own}). The \
             object might have been deleted and then recreated"
        ));
    }
    let own = metadata::text(object, "resourceVersion");
    if let Some(version) = how.version.as_deref().filter(|version| *version != own) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({own}). The object might have been modified"
        ));
    }
    Ok(())
}

fn other_uid(kind: &Kind, name: &str, uid: &str, own: &str) -> Refusal {
    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
    Refusal::conflict(&kind.resource, name, &why)
}

/// Says on the object when it goes.
fn mark(kind: &Kind, object: &mut Object, at: &str, grace: u64) -> Result<(), Refusal> {
    if metadata::text(object, "deletionTimestamp").is_empty() {
        metadata::count_generation(object)?;
    }
    let own = metadata::of(object)?;
    own.insert("deletionTimestamp".into(), at.into());
    if kind.shelf == NAMESPACES {
        let status = serde_json::json!({ "phase": "Terminating" });
        object.insert("status".into(), status);
    } else {
        own.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    Ok(())
}

/// Nobody can have fewer pods than none.
fn check_replicas(kind: &Kind, name: &str, object: &Object) -> Result<(), Refusal> {
    let wanted = object.get("spec").and_then(|spec| spec.get("replicas"));
    match wanted.and_then(Value::as_i64) {
        Some(count) if count < 0 && kind.scale.is_some() && !kind.is_custom => {
            Err(Refusal::negative(kind, name, "spec.replicas", count))
        }
        _ => Ok(()),
    }
}

/// Puts a field back as it was.
fn restore(present: &Object, object: &mut Object, field: &str) {
    object.remove(field);
    if let Some(value) = present.get(field) {
        object.insert(field.into(), value.clone());
    }
}

/// Whether what the owner wants has changed.
fn is_new_generation(kind: &Kind, before: &Object, after: &Object) -> bool {
    let is_wanted = |field: &&String| {
        let is_status = *field == "status" && kind.status != Status::Plain;
        *field != "metadata" && !is_status
    };
    let fields = before.keys().chain(after.keys()).filter(is_wanted);
    let mut fields = fields.map(String::as_str);
    let annotations = |object: &Object| {
        let metadata = object.get("metadata");
        metadata.and_then(|metadata| metadata.get("annotations").cloned())
    };
    // Deployments count those too.
    let annotated = kind.shelf == DEPLOYMENTS && annotations(before) != annotations(after);
    annotated || fields.any(|field| before.get(field) != after.get(field))
}

/// Whether an object that is marked may go now.
fn is_done(object: &Object) -> bool {
    let metadata = object.get("metadata");
    let grace = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_u64());
    !metadata::has_finalizers(object) && grace == Some(0)
}

/// Seconds that the object has after a deletion.
fn grace(kind: &Kind, object: &Object, how: &Deletion) -> u64 {
    let at = |path: &str| {
        let (first, rest) = path.split_once('/')?;
        object.get(first)?.get(rest)
    };
    let phase = at("status/phase").and_then(Value::as_str);
    let is_running = !["Succeeded", "Failed"].contains(&phase.unwrap_or_default());
    // Nobody has to stop what runs nowhere.
    if kind.shelf != PODS || at("spec/nodeName").is_none() || !is_running {
        return 0;
    }
    let own = at("spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
    how.grace.or(own).unwrap_or(30)
}

/// Whether a further deletion leaves less time than the first.
fn shortens(object: &Object, grace: u64) -> bool {
    let metadata = object.get("metadata");
    let left = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_u64());
    left.is_some_and(|left| grace < left)
}

/// What is null is absent, in the kinds whose fields the server knows.
fn strip_nulls(kind: &Kind, object: &mut Object) {
    if !kind.is_custom {
        object.values_mut().for_each(strip);
        object.retain(|_, value| !value.is_null());
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(strip);
            map.retain(|_, value| !value.is_null());
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}
