//! API discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header;
use serde_json::{Value, json};

use super::response::ServerResponse;
use super::{ServerRequest, SimServer};
use crate::kind::ResourceKind;

/// The media type of aggregated discovery: all resources in one response.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Kinds by group and version.
type Groups = BTreeMap<(String, String), Vec<Arc<ResourceKind>>>;

impl SimServer {
    fn kinds_by_group(&self) -> Groups {
        let mut groups = Groups::new();
        for kind in self.store.lock().kinds().values() {
            let key = (kind.resource.group().to_owned(), kind.version.clone());
            groups.entry(key).or_default().push(Arc::clone(kind));
        }
        // The group of access reviews, which are answered but not stored.
        groups
            .entry(("authorization.k8s.io".into(), "v1".into()))
            .or_default();
        groups
    }

    pub(super) fn groups(&self, request: &ServerRequest, is_core: bool) -> ServerResponse {
        let mut groups = self.kinds_by_group();
        groups.retain(|(group, _), _| group.is_empty() == is_core);
        let accept = request.head.headers.get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        if accept.is_some_and(|accept| accept.replace(' ', "").contains(AGGREGATED)) {
            let items: Vec<Value> = groups.iter().map(aggregated_group).collect();
            let list = json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            });
            return ServerResponse::new(200, AGGREGATED, list.to_string());
        }
        if is_core {
            let versions = json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            });
            return ServerResponse::json(200, &versions);
        }
        let groups = groups.keys();
        let groups: Vec<Value> = groups
            .map(|(group, version)| group_json(group, version))
            .collect();
        let list = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
        ServerResponse::json(200, &list)
    }

    pub(super) fn group(&self, group: &str) -> ServerResponse {
        let groups = self.kinds_by_group();
        let found = groups.keys().find(|(name, _)| name == group);
        let Some((group, version)) = found else {
            return super::non_resource("");
        };
        let mut shown = group_json(group, version);
        shown["kind"] = "APIGroup".into();
        shown["apiVersion"] = "v1".into();
        ServerResponse::json(200, &shown)
    }

    pub(super) fn resources(&self, group: &str, version: &str) -> ServerResponse {
        let groups = self.kinds_by_group();
        let Some(kinds) = groups.get(&(group.to_owned(), version.to_owned())) else {
            return super::non_resource("");
        };
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let mut resources: Vec<Value> = kinds.iter().flat_map(resource_json).collect();
        if group == "authorization.k8s.io" {
            resources.extend(reviews());
        }
        let list = json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version,
            "resources": resources,
        });
        ServerResponse::json(200, &list)
    }
}

fn group_json(group: &str, version: &str) -> Value {
    let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    json!({ "name": group, "versions": [version], "preferredVersion": version })
}

fn resource_json(kind: &Arc<ResourceKind>) -> Vec<Value> {
    let plural = kind.resource.plural();
    let mut own = json!({
        "name": plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.name,
        "verbs": kind.verbs(),
    });
    insert_names(&mut own, kind);
    let mut all = vec![own];
    for (subresource, response) in subresources(kind) {
        let mut own = json!({
            "name": format!("{plural}/{subresource}"),
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": response.2,
            "verbs": ["get", "patch", "update"],
        });
        if subresource == "scale" {
            own["group"] = response.0.into();
            own["version"] = response.1.into();
        }
        all.push(own);
    }
    all
}

/// Inserts the short names and categories, if there are any.
fn insert_names(shown: &mut Value, kind: &ResourceKind) {
    for (field, names) in [
        ("shortNames", &kind.short_names),
        ("categories", &kind.categories),
    ] {
        if !names.is_empty() {
            shown[field] = json!(names);
        }
    }
}

/// Returns group, version and kind of an object's response. Aggregated discovery omits group and
/// version for built-in kinds.
fn response_kind(kind: &ResourceKind) -> (&str, &str, &str) {
    if kind.is_custom {
        (kind.resource.group(), &kind.version, &kind.name)
    } else {
        ("", "", &kind.name)
    }
}

/// Returns the subresources, each with group, version and kind of its response.
fn subresources(kind: &ResourceKind) -> Vec<(&'static str, (&str, &str, &str))> {
    let scale = ("scale", ("autoscaling", "v1", "Scale"));
    let status = ("status", response_kind(kind));
    [scale, status]
        .into_iter()
        .filter(|(name, _)| kind.has_subresource(name))
        .collect()
}

fn reviews() -> Vec<Value> {
    let review = |kind: &str| {
        json!({
            "name": format!("{}s", kind.to_lowercase()),
            "singularName": kind.to_lowercase(),
            "namespaced": false,
            "kind": kind,
            "verbs": ["create"],
        })
    };
    vec![
        review("SelfSubjectAccessReview"),
        review("SelfSubjectRulesReview"),
    ]
}

fn aggregated_group(
    ((group, version), kinds): (&(String, String), &Vec<Arc<ResourceKind>>),
) -> Value {
    let resources: Vec<Value> = kinds.iter().map(|kind| aggregated_kind(kind)).collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({ "name": group })
    };
    json!({
        "metadata": metadata,
        "versions": [{ "version": version, "resources": resources, "freshness": "Current" }],
    })
}

fn aggregated_kind(kind: &ResourceKind) -> Value {
    let response = |of: (&str, &str, &str)| {
        let (group, version, kind) = of;
        json!({ "group": group, "version": version, "kind": kind })
    };
    let mut shown = json!({
        "resource": kind.resource.plural(),
        "responseKind": response(response_kind(kind)),
        "scope": if kind.is_namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs(),
    });
    insert_names(&mut shown, kind);
    let own = subresources(kind).into_iter().map(|(name, of)| {
        json!({
            "subresource": name,
            "responseKind": response(of),
            "verbs": ["get", "patch", "update"],
        })
    });
    let own: Vec<Value> = own.collect();
    if !own.is_empty() {
        shown["subresources"] = own.into();
    }
    shown
}
