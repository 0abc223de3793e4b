//! Reading and writing one object.

use serde_json::{Value, json};

use super::answer::Answer;
use super::format::Format;
use super::route::Place;
use super::{Asked, Deed, Server, events, not_allowed, parsed, parsed_object, table};
use crate::kind::Kind;
use crate::patch::{Patch, prune};
use crate::refusal::{Reason, Refusal};
use crate::resource::Resource;
use crate::shape;
use crate::store::body::{key, parts};
use crate::store::{Deleted, Deletion, Kept, Paging, Part, Store};
use crate::wire;

/// What an update or a patch came to.
struct Written {
    kept: Kept,
    is_new: bool,
}

impl Server {
    pub(super) fn objects(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        if place.subresource == "scale" {
            return self.scale(asked, place);
        }
        match asked.call.verb {
            "list" => self.list(asked, place),
            "watch" => self.watch(asked, place),
            "get" => self.get(asked, place),
            "create" if place.name.is_empty() => self.create(asked, place),
            "update" if !place.name.is_empty() => self.update(asked, place),
            "patch" if !place.name.is_empty() => self.patch(asked, place),
            "delete" if place.subresource.is_empty() => self.delete(asked, place),
            "deletecollection" if place.kind.verbs().contains(&"deletecollection") => {
                self.delete_all(asked, place)
            }
            _ => Err(not_allowed()),
        }
    }

    /// Where reads are answered from.
    pub(super) fn source<'a>(&'a self, asked: &'a Asked<'_>) -> &'a Store {
        match &asked.fate.deed {
            Deed::ServeFrom(store) => store,
            _ => &self.store,
        }
    }

    fn get(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let store = self.source(asked).lock();
        let kept = store.get(&place.kind, &place.namespace, &place.name)?;
        drop(store);
        shown(asked, &place.kind, 200, &kept)
    }

    fn create(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let (kind, is_dry) = (&place.kind, is_dry(asked));
        // All namespaces at once are no place for an object.
        if kind.is_namespaced && place.namespace.is_empty() {
            return Err(not_allowed());
        }
        let object = read(asked, kind)?;
        let mut state = self.store.lock();
        let kept = state.create(kind, &place.namespace, object, is_dry)?;
        drop(state);
        shown(asked, kind, 201, &kept)
    }

    fn update(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let (kind, is_dry, part) = (&place.kind, is_dry(asked), part(place));
        let object = read(asked, kind)?;
        let mut state = self.store.lock();
        let is_there = state.get(kind, &place.namespace, &place.name).is_ok();
        if !is_there && kind.created_by_update && part == Part::Object {
            check_name(place, &object)?;
            let mut object = object;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let kept = state.create(kind, &place.namespace, object, is_dry)?;
            drop(state);
            return shown(asked, kind, 201, &kept);
        }
        let (namespace, name) = (&place.namespace, &place.name);
        let kept = state.update(kind, namespace, name, part, is_dry, |_| Ok(object))?;
        drop(state);
        shown(asked, kind, 200, &kept)
    }

    fn patch(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let how = patch_of(asked, &place.kind)?;
        let patch = parsed(asked.body)?;
        let written = self.patched(asked, place, how, &patch)?;
        let code = if written.is_new { 201 } else { 200 };
        shown(asked, &place.kind, code, &written.kept)
    }

    fn patched(
        &self,
        asked: &Asked<'_>,
        place: &Place,
        how: Patch,
        patch: &Value,
    ) -> Result<Written, Refusal> {
        let (kind, is_dry) = (&place.kind, is_dry(asked));
        let (namespace, name) = (&place.namespace, &place.name);
        let mut state = self.store.lock();
        let is_new = state.get(kind, namespace, name).is_err();
        let manager = asked.query.text("fieldManager");
        if how == Patch::Apply && manager.is_empty() {
            return Err(no_manager());
        }
        // Who applies a status has nothing to do with who applies the rest.
        let who = format!("{manager}/{}", place.subresource);
        let key = key(namespace, name);
        let kept = if is_new && how == Patch::Apply && place.subresource.is_empty() {
            let mut object = json!({});
            how.apply(&mut object, patch)?;
            check_shape(how, kind, &object)?;
            check_name(place, &object)?;
            state.create(kind, namespace, object, is_dry)?
        } else {
            let last = state.applied(kind, &key, &who);
            let is_new_events = kind.resource != kind.shelf;
            state.update(kind, namespace, name, part(place), is_dry, |mut object| {
                if is_new_events {
                    events::to_new(&mut object);
                }
                if how == Patch::Apply {
                    prune(&mut object, &last, patch);
                }
                how.apply(&mut object, patch)?;
                check_shape(how, kind, &object)?;
                if is_new_events && object.is_object() {
                    events::to_core(&mut object);
                }
                Ok(object)
            })?
        };
        if how == Patch::Apply && !is_dry {
            state.remember(kind, &key, &who, patch);
        }
        Ok(Written { kept, is_new })
    }

    fn delete(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let (kind, how) = (&place.kind, deletion(asked)?);
        let mut state = self.store.lock();
        let (namespace, name) = (&place.namespace, &place.name);
        let deleted = state.delete(kind, namespace, name, &how, is_dry(asked))?;
        drop(state);
        match deleted {
            Deleted::Gone(kept) if !kind.shows_deleted => {
                let uid = kept.value(kind)["metadata"]["uid"].clone();
                Ok(Answer::json(200, &success(kind, name, &uid)))
            }
            Deleted::Gone(kept) | Deleted::Marked(kept) => shown(asked, kind, 200, &kept),
        }
    }

    fn delete_all(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let (kind, how, is_dry) = (&place.kind, deletion(asked)?, is_dry(asked));
        let selection = super::lists::selection(asked, place)?;
        let mut state = self.store.lock();
        let mut page = state.list(kind, &selection, &Paging::default())?;
        for kept in &mut page.objects {
            let (namespace, name) = parts(&kept.key);
            let deleted = state.delete(kind, namespace, name, &how, is_dry)?;
            let (Deleted::Gone(after) | Deleted::Marked(after)) = deleted;
            *kept = after;
        }
        page.version = state.version;
        drop(state);
        super::lists::shown(asked, kind, &page)
    }
}

/// What an update or an apply makes must have the name that the request names.
fn check_name(place: &Place, object: &Value) -> Result<(), Refusal> {
    let said = object["metadata"]["name"].as_str().unwrap_or_default();
    if said == place.name {
        return Ok(());
    }
    let name = &place.name;
    Err(Refusal::bad_request(format!(
        "the name of the object ({said}) does not match the name on the URL ({name})"
    )))
}

/// What a patch has made of an object must still be one of its kind.
fn check_shape(how: Patch, kind: &Kind, object: &Value) -> Result<(), Refusal> {
    match shape::wrong(kind, object) {
        None => Ok(()),
        // The server does not expect this here.
        Some(why) if how == Patch::Apply => {
            let message = format!("failed to create typed patch object: {why}");
            Err(Refusal::new(Reason::Unknown, message))
        }
        Some(why) => Err(Refusal::undecodable(&why)),
    }
}

fn no_manager() -> Refusal {
    let options = Resource::new("meta.k8s.io", "PatchOptions");
    let why = "Required value: is required for apply patch";
    Refusal::invalid_as(&options, "", "fieldManager", "FieldValueRequired", why)
}

/// One object in the form the client wants.
pub(super) fn shown(
    asked: &Asked<'_>,
    kind: &Kind,
    code: u16,
    kept: &Kept,
) -> Result<Answer, Refusal> {
    let format = Format::wanted(&asked.head.headers, kind)?;
    Ok(match format {
        Format::Json => Answer::text(code, text(kind, kept)),
        Format::Protobuf => Answer::of(code, wire::PROTOBUF, wire::one(kind, kept)),
        Format::Table => {
            let now = asked.call.at;
            let version = kept.stored.version.to_string();
            let metadata = json!({ "resourceVersion": version });
            Answer::json(
                code,
                &table::table(kind, &[kept.value(kind)], &metadata, now),
            )
        }
        Format::Metadata => Answer::json(code, &metadata_alone(&kept.value(kind))),
    })
}

/// The JSON of an object, as the group it was asked of has it.
pub(super) fn text(kind: &Kind, kept: &Kept) -> String {
    if kind.resource == kind.shelf {
        return kept.text(kind);
    }
    let mut event = kept.value(kind);
    events::to_new(&mut event);
    event.to_string()
}

pub(super) fn metadata_alone(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

fn part(place: &Place) -> Part {
    match place.subresource.as_str() {
        "status" => Part::Status,
        _ => Part::Object,
    }
}

pub(super) fn is_dry(asked: &Asked<'_>) -> bool {
    asked.query.text("dryRun") == "All"
}

/// The object in a request. It must be of the kind it is sent to.
fn read(asked: &Asked<'_>, kind: &Kind) -> Result<Value, Refusal> {
    let mut object = decoded(asked, wire::fields(kind))?;
    let said = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (kind_said, version_said) = (said("kind"), said("apiVersion"));
    let is_kind = kind_said.is_empty() || kind_said == kind.name;
    let is_version = version_said.is_empty() || version_said == kind.api_version();
    if !is_kind || !is_version {
        let message = format!(
            "{kind_said} in version \"{version_said}\" cannot be handled as a {}: converting \
             ({version_said}.{kind_said}) to ({}.{}): unknown conversion",
            kind.name,
            kind.api_version(),
            kind.name
        );
        return Err(Refusal::bad_request(message));
    }
    if let Some(why) = shape::wrong(kind, &object) {
        return Err(Refusal::bad_request(why));
    }
    if kind.resource != kind.shelf {
        events::to_core(&mut object);
    }
    Ok(object)
}

/// What is in a request; `fields` are those of its protobuf, if that is taken.
pub(super) fn decoded(asked: &Asked<'_>, fields: Option<wire::Fields>) -> Result<Value, Refusal> {
    match (content_type(asked).as_str(), fields) {
        ("" | "application/json" | "*/*", _) => parsed_object(asked.body),
        (wire::PROTOBUF, Some(fields)) => {
            let message = "the object provided is unrecognized (must be of type protobuf, and all of its \
                           fields known here: send JSON)";
            wire::read(fields, asked.body).ok_or_else(|| Refusal::bad_request(message))
        }
        _ => {
            let message = "the body of the request was in an unknown format - accepted media \
                           types include: application/json";
            Err(Refusal::new(Reason::UnsupportedMediaType, message))
        }
    }
}

/// How the patch in a request is meant.
pub(super) fn patch_of(asked: &Asked<'_>, kind: &Kind) -> Result<Patch, Refusal> {
    let found = Patch::of(&content_type(asked));
    // What a list's things are known by is only known of kinds that are built in.
    let found = found.filter(|patch| !(kind.is_custom && *patch == Patch::Strategic));
    found.ok_or_else(|| {
        let mut refusal = Refusal::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type");
        refusal.details = Some(serde_json::Map::new());
        refusal
    })
}

fn content_type(asked: &Asked<'_>) -> String {
    let found = asked.head.headers.get(http::header::CONTENT_TYPE);
    let found = found
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = found.split(';').next().unwrap_or_default();
    media.trim().to_owned()
}

/// How to delete: by the body, or by what is behind the question mark.
fn deletion(asked: &Asked<'_>) -> Result<Deletion, Refusal> {
    let body = if asked.body.is_empty() {
        Value::Null
    } else {
        parsed_object(asked.body)?
    };
    let text = |field: &str| Some(body["preconditions"][field].as_str()?.to_owned());
    let grace = body["gracePeriodSeconds"].as_u64();
    Ok(Deletion {
        grace: grace.or_else(|| asked.query.number("gracePeriodSeconds")),
        uid: text("uid"),
        version: text("resourceVersion"),
    })
}

fn success(kind: &Kind, name: &str, uid: &Value) -> Value {
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
