//! List requests.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::format::ResponseFormat;
use super::response::ServerResponse;
use super::route::ResourcePath;
use super::{ServerRequest, ServerResult, SimServer, objects, table};
use crate::kind::ResourceKind;
use crate::selector::ObjectSelector;
use crate::status_error::{StatusError, StatusReason};
use crate::store::{ListOptions, ListPage, VersionMatch};
use crate::wire;

impl SimServer {
    pub(super) fn list(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let selector = selector(request, path)?;
        let options = list_options(request)?;
        let store = self.read_store(request);
        let page = store.lock().list(&path.kind, &selector, &options)?;
        list_response(request, &path.kind, &page)
    }
}

/// Returns the selector of a list or watch request.
pub(super) fn selector(
    request: &ServerRequest,
    path: &ResourcePath,
) -> Result<ObjectSelector, StatusError> {
    let selector = match path.namespace.as_str() {
        "" => ObjectSelector::all(),
        namespace => ObjectSelector::in_namespace(namespace),
    };
    let (labels, fields) = (
        request.query.get("labelSelector"),
        request.query.get("fieldSelector"),
    );
    // Events are stored with the field names of the core group.
    let fields = fields.replace("regarding.", "involvedObject.");
    selector
        .with_labels(labels)?
        .with_fields(&path.kind.storage, &fields)
}

/// Returns the request's `resourceVersion`, if it has one.
pub(super) fn version(request: &ServerRequest) -> Result<Option<u64>, StatusError> {
    let text = request.query.get("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!(
            "Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        StatusError::bad_request(format!("resourceVersion: {why}"))
    })
}

fn list_options(request: &ServerRequest) -> Result<ListOptions, StatusError> {
    let limit = request.query.integer("limit").unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let version = version(request)?;
    let token = request.query.get("continue");
    let version_match = request.query.get("resourceVersionMatch");
    check_version_match(version, token, version_match)?;
    let mut continue_after = None;
    let version_match = match (version, version_match) {
        _ if !token.is_empty() => {
            let (version, last) = parse_continue(token)?;
            continue_after = Some(last.into());
            VersionMatch::Exact(version)
        }
        (None | Some(0), _) => VersionMatch::Latest,
        (Some(version), "Exact") => VersionMatch::Exact(version),
        (Some(version), "") if limit > 0 => VersionMatch::Exact(version),
        (Some(version), _) => VersionMatch::NotOlderThan(version),
    };
    Ok(ListOptions {
        limit,
        continue_after,
        version_match,
    })
}

/// Rejects combinations of options that exclude each other.
fn check_version_match(
    version: Option<u64>,
    token: &str,
    version_match: &str,
) -> Result<(), StatusError> {
    let forbidden = |why: &str| {
        let (field, cause) = ("resourceVersionMatch", "FieldValueForbidden");
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {why}");
        let details = json!({
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{ "reason": cause, "message": format!("Forbidden: {why}"), "field": field }],
        });
        StatusError::with_details(StatusReason::Invalid, message, &details)
    };
    match (version, token, version_match) {
        (_, "", "") => Ok(()),
        (Some(1..), _, "") => Err(StatusError::bad_request(
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

/// Decodes a continue token: the version of the list, and the last key of the previous page.
fn parse_continue(token: &str) -> Result<(u64, String), StatusError> {
    let parse = || {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let token: Value = serde_json::from_slice(&bytes).ok()?;
        Some((token["rv"].as_u64()?, token["start"].as_str()?.to_owned()))
    };
    parse().ok_or_else(|| StatusError::bad_request("continue key is not valid"))
}

/// Encodes a list in the format that the client accepts.
pub(super) fn list_response(
    request: &ServerRequest,
    kind: &ResourceKind,
    page: &ListPage,
) -> ServerResult {
    let format = ResponseFormat::negotiate(&request.head.headers, kind)?;
    let metadata = list_metadata(request, kind, page);
    let values = || page.objects.iter().map(|stored| stored.to_value(kind));
    Ok(match format {
        ResponseFormat::Json => ServerResponse::json_text(200, list_json(kind, page, &metadata)),
        ResponseFormat::Protobuf => {
            let list = wire::encode_list(kind, &metadata, &page.objects);
            ServerResponse::new(200, wire::PROTOBUF, list)
        }
        ResponseFormat::Table => {
            let (values, now) = (values().collect::<Vec<_>>(), request.info.received_at);
            ServerResponse::json(200, &table::table(kind, &values, &metadata, now))
        }
        ResponseFormat::Metadata => {
            let items = values().map(|value| objects::partial_metadata(&value));
            let items: Vec<Value> = items.collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            });
            ServerResponse::json(200, &list)
        }
    })
}

fn list_json(kind: &ResourceKind, page: &ListPage, metadata: &Value) -> String {
    let mut text = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.name,
        kind.api_version()
    );
    for (index, stored) in page.objects.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if kind.resource == kind.storage {
            // Items of built-in kinds have no kind of their own.
            let own = kind.is_custom.then_some(kind);
            stored.revision.write_json(&stored.key, own, &mut text);
        } else {
            text.push_str(&objects::object_json(kind, stored));
        }
    }
    text.push_str("]}");
    text
}

fn list_metadata(request: &ServerRequest, kind: &ResourceKind, page: &ListPage) -> Value {
    let mut metadata = json!({ "resourceVersion": page.version.to_string() });
    if kind.is_custom {
        metadata["continue"] = "".into();
    }
    if let (1.., Some(last)) = (page.remaining, page.objects.last()) {
        let token = json!({ "v": "meta.k8s.io/v1", "rv": page.version, "start": &*last.key });
        metadata["continue"] = BASE64_URL_SAFE_NO_PAD.encode(token.to_string()).into();
        let is_unfiltered = request.query.get("labelSelector").is_empty()
            && request.query.get("fieldSelector").is_empty();
        if is_unfiltered {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    metadata
}
