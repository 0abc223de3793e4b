//! Lists, in pages.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::answer::Answer;
use super::format::Format;
use super::route::Place;
use super::{Asked, Server, objects, table};
use crate::kind::Kind;
use crate::refusal::{Reason, Refusal};
use crate::selection::Selection;
use crate::store::{Page, Paging, Since};
use crate::wire;

impl Server {
    pub(super) fn list(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let selection = selection(asked, place)?;
        let paging = paging(asked)?;
        let page = self
            .source(asked)
            .lock()
            .list(&place.kind, &selection, &paging)?;
        shown(asked, &place.kind, &page)
    }
}

/// Which objects the request is about.
pub(super) fn selection(asked: &Asked<'_>, place: &Place) -> Result<Selection, Refusal> {
    let selection = match place.namespace.as_str() {
        "" => Selection::all(),
        namespace => Selection::in_namespace(namespace),
    };
    let (labels, fields) = (
        asked.query.text("labelSelector"),
        asked.query.text("fieldSelector"),
    );
    // Events are kept with the names of the core group.
    let fields = fields.replace("regarding.", "involvedObject.");
    selection
        .labelled(labels)?
        .with_fields(&place.kind.shelf, &fields)
}

/// The version a request names; nothing if none, or any will do.
pub(super) fn version(asked: &Asked<'_>) -> Result<Option<u64>, Refusal> {
    let text = asked.query.text("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!(
            "Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        Refusal::bad_request(format!("resourceVersion: {why}"))
    })
}

fn paging(asked: &Asked<'_>) -> Result<Paging, Refusal> {
    let limit = asked.query.number("limit").unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let version = version(asked)?;
    let token = asked.query.text("continue");
    let rule = asked.query.text("resourceVersionMatch");
    check(version, token, rule)?;
    if !token.is_empty() {
        let (version, after) = opened(token)?;
        return Ok(Paging {
            limit,
            after: Some(after.into()),
            since: Since::Exactly(version),
        });
    }
    let since = match (version, rule) {
        (None | Some(0), _) => Since::Now,
        (Some(version), "Exact") => Since::Exactly(version),
        (Some(version), "") if limit > 0 => Since::Exactly(version),
        (Some(version), _) => Since::NotBefore(version),
    };
    Ok(Paging {
        limit,
        after: None,
        since,
    })
}

/// What does not go together.
fn check(version: Option<u64>, token: &str, rule: &str) -> Result<(), Refusal> {
    let forbidden = |why: &str| {
        let (field, cause) = ("resourceVersionMatch", "FieldValueForbidden");
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {why}");
        let mut refusal = Refusal::new(Reason::Invalid, message);
        let details = json!({
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{ "reason": cause, "message": format!("Forbidden: {why}"), "field": field }],
        });
        refusal.details = details.as_object().cloned();
        refusal
    };
    match (version, token, rule) {
        (_, "", "") => Ok(()),
        (Some(1..), _, "") => Err(Refusal::bad_request(
            "specifying resource version is not allowed when using continue",
        )),
        (_, _, "") => Ok(()),
        (_, token, _) if !token.is_empty() => Err(forbidden(
            "resourceVersionMatch is forbidden when continue is provided",
        )),
        (None, _, _) => Err(forbidden(
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )),
        (Some(0), _, "Exact") => Err(forbidden(
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )),
        _ => Ok(()),
    }
}

/// Where a list goes on: the version it is of, and the last key that was shown.
fn opened(token: &str) -> Result<(u64, String), Refusal> {
    let invalid = || Refusal::bad_request("continue key is not valid");
    let bytes = BASE64_URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| invalid())?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    let version = token["rv"].as_u64().ok_or_else(invalid)?;
    let after = token["start"].as_str().ok_or_else(invalid)?;
    Ok((version, after.to_owned()))
}

/// A list in the form the client wants.
pub(super) fn shown(asked: &Asked<'_>, kind: &Kind, page: &Page) -> Result<Answer, Refusal> {
    let format = Format::wanted(&asked.head.headers, kind)?;
    let metadata = metadata(asked, kind, page);
    let values = || page.objects.iter().map(|kept| kept.value(kind));
    Ok(match format {
        Format::Json => Answer::text(200, text(kind, page, &metadata)),
        Format::Protobuf => {
            let values: Vec<Value> = values().collect();
            Answer::of(
                200,
                wire::PROTOBUF,
                wire::list(kind, &metadata, values.iter()),
            )
        }
        Format::Table => {
            let values: Vec<Value> = values().collect();
            Answer::json(200, &table::table(kind, &values, &metadata, asked.call.at))
        }
        Format::Metadata => {
            let items: Vec<Value> = values()
                .map(|value| objects::metadata_alone(&value))
                .collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            });
            Answer::json(200, &list)
        }
    })
}

fn text(kind: &Kind, page: &Page, metadata: &Value) -> String {
    let mut text = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.name,
        kind.api_version()
    );
    for (index, kept) in page.objects.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if kind.resource == kind.shelf {
            // Kinds that are built in do not repeat themselves in each thing of a list.
            let own = kind.is_custom.then_some(kind);
            kept.stored.write(&kept.key, own, &mut text);
        } else {
            text.push_str(&objects::text(kind, kept));
        }
    }
    text.push_str("]}");
    text
}

fn metadata(asked: &Asked<'_>, kind: &Kind, page: &Page) -> Value {
    let mut metadata = json!({ "resourceVersion": page.version.to_string() });
    if kind.is_custom {
        metadata["continue"] = "".into();
    }
    if let (1.., Some(last)) = (page.left, page.objects.last()) {
        let token = json!({ "v": "meta.k8s.io/v1", "rv": page.version, "start": &*last.key });
        metadata["continue"] = BASE64_URL_SAFE_NO_PAD.encode(token.to_string()).into();
        let is_whole = asked.query.text("labelSelector").is_empty()
            && asked.query.text("fieldSelector").is_empty();
        if is_whole {
            metadata["remainingItemCount"] = page.left.into();
        }
    }
    metadata
}
